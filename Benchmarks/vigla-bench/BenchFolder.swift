import Glibc

/// A temporary folder, removed with its files.
final class BenchFolder {
    let path: String

    init() throws {
        var template = Array("/tmp/vigla-bench-XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else { throw BenchError.system("mkdtemp", errno: errno) }
        path = String(cString: made)
    }

    deinit { _ = system("rm -rf \(path)") }

    func write(_ text: String, to name: String) throws {
        guard let file = fopen("\(path)/\(name)", "w") else { throw BenchError.system("fopen", errno: errno) }
        fputs(text, file)
        fclose(file)
    }
}
