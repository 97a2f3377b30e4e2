package import Foundation

/// `vigla serve` on a free port, until the test releases it.
package final class RunningHub {
    package let process: ChildProcess
    package let readyLine: String
    package let folder: TemporaryFolder
    /// `http://127.0.0.1:PORT`; `https://…` if there is no plain port.
    package let url: String
    /// `https://127.0.0.1:PORT`, empty without TLS.
    package let secureURL: String
    private let output: FileHandle
    private let errorFile: URL

    package struct NotReady: Error { package let error: String }

    /// - Parameter shell: commands that prepare the process, in the folder; the hub replaces the shell.
    package init(
        _ arguments: [String], environment: [String: String] = [:], folder: TemporaryFolder? = nil, program: String = "vigla",
        shell: String? = nil
    ) throws {
        let folder = try folder ?? TemporaryFolder()
        self.folder = folder
        let pipe = Pipe()
        output = pipe.fileHandleForReading
        errorFile = folder.url.appendingPathComponent("error-\(UUID().uuidString).log")
        _ = FileManager.default.createFile(atPath: errorFile.path, contents: nil)
        var command = ["serve"] + arguments
        if let shell { command = ["-c", "\(shell) exec \"$0\" \"$@\"", Command.folder.appendingPathComponent(program).path] + command }
        process = try Command.start(
            command, environment, folder.url, shell == nil ? program : "/bin/sh", output: .handle(pipe.fileHandleForWriting),
            error: .handle(FileHandle(forWritingTo: errorFile)))
        try pipe.fileHandleForWriting.close()
        var line = Data()
        while let byte = try output.read(upToCount: 1), let first = byte.first, first != 0x0A { line.append(byte) }
        readyLine = String(decoding: line, as: UTF8.self)
        let words = readyLine.split(separator: " ").map(String.init)
        secureURL = words.first { $0.hasPrefix("https://") } ?? ""
        url = words.first { $0.hasPrefix("http://") } ?? secureURL
        if url.isEmpty {
            process.waitUntilExit()
            throw NotReady(error: (try? String(contentsOf: errorFile, encoding: .utf8)) ?? "")
        }
    }

    package var error: String { (try? String(contentsOf: errorFile, encoding: .utf8)) ?? "" }

    /// A connection to the hub.
    package func connection() throws -> FileHandle {
        let port = url.split(separator: ":").last.flatMap { UInt16($0) } ?? 0
        let (descriptor, isConnected) = Loopback.connect(port: port, patienceSeconds: 60)
        let connection = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        guard isConnected else { throw NotReady(error: "nobody listens") }
        return connection
    }

    /// The hub's complete answer to a GET, including the head.
    package func page(_ target: String) throws -> String {
        let connection = try connection()
        try connection.write(contentsOf: Data("GET \(target) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8))
        return String(decoding: try connection.readToEnd() ?? Data(), as: UTF8.self)
    }

    /// Sends a signal and waits for the end. A program that does not end within 20 s is killed, which shows in the result.
    package func stop(_ number: Int32 = SIGTERM) -> Int32 {
        let process = process
        kill(process.processIdentifier, number)
        DispatchQueue.global().asyncAfter(deadline: .now() + 20) { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }
        process.waitUntilExit()
        return process.terminationStatus
    }

    deinit {
        if process.isRunning { _ = stop(SIGKILL) }
    }
}
