import Glibc
import Synchronization
import WireProtocols

/// The console page's static files, read from a folder on each request: they are small, local and cached by the system. For clients
/// that accept gzip each file is compressed once, until it changes.
final class ConsoleFiles: Sendable {
    let folder: String
    private let compressed = Mutex<[String: Compressed]>([:])

    struct File {
        let type: String
        let bytes: [UInt8]
        /// Whether the bytes are in gzip.
        var isCompressed = false
    }

    private struct Compressed {
        /// The content that was compressed.
        let original: [UInt8]
        /// Nil when it would not be shorter.
        let bytes: [UInt8]?
    }

    /// The largest file that is served.
    private static let maxBytes = 4 << 20
    /// The largest file that is compressed: compressing it blocks a net loop for some 20 ms, once.
    private static let compressedBytes = 512 << 10
    /// Files that are kept compressed.
    private static let compressedFiles = 200

    init(folder: String) { self.folder = folder }

    /// The same, compressed where that is shorter.
    func compressedFile(_ segments: some Collection<String>) -> File? {
        guard let file = file(segments) else { return nil }
        guard file.bytes.count <= Self.compressedBytes, Self.isText(file.type) else { return file }
        let name = segments.joined(separator: "/")
        let known = compressed.withLock { $0[name] }
        let made: Compressed
        if let known, known.original == file.bytes { made = known } else {
            made = Compressed(original: file.bytes, bytes: Gzip.compressed(file.bytes))
            compressed.withLock { files in
                if files.count >= Self.compressedFiles { files = [:] }
                files[name] = made
            }
        }
        guard let bytes = made.bytes else { return file }
        return File(type: file.type, bytes: bytes, isCompressed: true)
    }

    private static func isText(_ type: String) -> Bool {
        type.hasPrefix("text/") || type.hasPrefix("application/json") || type == "image/svg+xml"
    }

    /// The file for decoded path segments; `index.html` for none. Nil for anything outside the folder, hidden or missing.
    func file(_ segments: some Collection<String>) -> File? {
        var path = folder
        for segment in segments {
            guard !segment.hasPrefix("."), !segment.contains("/"), !segment.contains("\0") else { return nil }
            path += "/" + segment
        }
        if segments.isEmpty { path += "/index.html" }
        guard let bytes = Self.read(path) else { return nil }
        return File(type: Self.type(of: path), bytes: bytes)
    }

    private static func read(_ path: String) -> [UInt8]? {
        let fd = open(path, O_RDONLY | O_CLOEXEC)
        guard fd >= 0 else { return nil }
        defer { Glibc.close(fd) }
        var status = stat()
        guard fstat(fd, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size <= maxBytes else { return nil }
        let size = Int(status.st_size)
        return [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
            count = 0
            while count < size {
                let got = Glibc.read(fd, buffer.baseAddress! + count, size - count)
                if got <= 0 { break }
                count += got
            }
        }
    }

    private static func type(of path: String) -> String {
        switch path.split(separator: ".").last {
        case "html": "text/html; charset=utf-8"
        case "js", "mjs": "text/javascript; charset=utf-8"
        case "css": "text/css; charset=utf-8"
        case "json", "webmanifest": "application/json; charset=utf-8"
        case "md", "txt": "text/plain; charset=utf-8"
        case "svg": "image/svg+xml"
        case "png": "image/png"
        case "ico": "image/x-icon"
        case "woff2": "font/woff2"
        default: "application/octet-stream"
        }
    }
}
