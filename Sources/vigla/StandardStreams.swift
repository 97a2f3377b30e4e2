import Glibc

/// Standard output and error as plain descriptors: lines are written whole and at once, also into a pipe.
enum StandardStream: Int32 {
    case output = 1
    case error = 2

    /// Writes the text and a line end. If the reader has gone, the program ends quietly, like any filter.
    func line(_ text: String) { write(Array((text + "\n").utf8)) }

    func write(_ bytes: [UInt8]) {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { Glibc.write(rawValue, $0.baseAddress.map { $0 + sent }, bytes.count - sent) }
            if count > 0 { sent += count; continue }
            if errno == EINTR || errno == EAGAIN { continue }
            if self == .output { exit(errno == EPIPE ? 0 : 1) }
            return
        }
    }
}

/// Ends the program. (Every command has a member named `exit`.)
func end(_ code: Int32 = 0) -> Never { exit(code) }

/// Prints an error and ends the program.
func fail(_ message: String, code: Int32 = 1) -> Never {
    StandardStream.error.line("vigla: \(message)")
    exit(code)
}

/// Reads a whole file.
enum WholeFile {
    /// - Returns: the bytes, or the system's error.
    static func read(_ path: String) -> Result<[UInt8], FileFault> {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return .failure(FileFault(errno)) }
        defer { close(descriptor) }
        return read(descriptor)
    }

    static func read(_ descriptor: Int32) -> Result<[UInt8], FileFault> {
        var all: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count == 0 { return .success(all) }
            if count > 0 { all += chunk[..<count]; continue }
            if errno != EINTR { return .failure(FileFault(errno)) }
        }
    }
}

struct FileFault: Error, CustomStringConvertible {
    /// An errno.
    let code: Int32

    init(_ code: Int32) { self.code = code }

    var description: String { String(cString: strerror(code)).lowercased() }
}
