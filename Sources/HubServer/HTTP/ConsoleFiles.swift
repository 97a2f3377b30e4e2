import Glibc

/// The static files of the console page, read from a folder on each request: they are small, local and cached by the system.
struct ConsoleFiles: Sendable {
    let folder: String

    struct File {
        let type: String
        let bytes: [UInt8]
    }

    /// The largest file that is served.
    private static let maxBytes = 4 << 20

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
        case "svg": "image/svg+xml"
        case "png": "image/png"
        case "ico": "image/x-icon"
        case "woff2": "font/woff2"
        default: "application/octet-stream"
        }
    }
}
