import Foundation
import Testing

/// The built program as a child process.
struct Command {
    /// Beside the test bundle, where the package manager puts it.
    static let folder: URL = {
        let link = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        // The test runner may be the toolchain's; the bundle then stands in its arguments.
        let candidates = [link] + CommandLine.arguments.map { URL(fileURLWithPath: $0) }
        let folders = candidates.map { $0.deletingLastPathComponent() }
        return folders.first { FileManager.default.isExecutableFile(atPath: $0.appendingPathComponent("vigla").path) } ?? folders[0]
    }()

    struct Result {
        let code: Int32
        let output: String
        let error: String
    }

    /// Runs the program to its end. The environment is only what is given.
    static func run(
        _ arguments: String..., environment: [String: String] = [:], input: String? = nil, in directory: URL? = nil, program: String = "vigla"
    ) throws -> Result {
        try run(arguments, environment: environment, input: input, in: directory, program: program)
    }

    static func run(
        _ arguments: [String], environment: [String: String] = [:], input: String? = nil, in directory: URL? = nil, program: String = "vigla"
    ) throws -> Result {
        let process = process(arguments, environment, directory, program)
        let (output, error) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = error
        let source = Pipe()
        process.standardInput = source
        try process.run()
        if let input { try source.fileHandleForWriting.write(contentsOf: Data(input.utf8)) }
        try source.fileHandleForWriting.close()
        // Both pipes are emptied while the program runs, so that neither can fill up.
        let errors = Box<Data>()
        let reader = Thread { errors.put(error.fileHandleForReading.readDataToEndOfFile()) }
        reader.start()
        let text = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return Result(code: process.terminationStatus, output: String(decoding: text, as: UTF8.self), error: String(decoding: errors.take(), as: UTF8.self))
    }

    static func process(_ arguments: [String], _ environment: [String: String], _ directory: URL?, _ program: String = "vigla") -> Process {
        let process = Process()
        process.executableURL = program.hasPrefix("/") ? URL(fileURLWithPath: program) : folder.appendingPathComponent(program)
        process.arguments = arguments
        process.environment = environment
        if let directory { process.currentDirectoryURL = directory }
        return process
    }
}

/// A value from one thread to another.
final class Box<Value>: @unchecked Sendable {
    // because `full` orders the one write before the one read.
    private var value: Value?
    private let full = DispatchSemaphore(value: 0)

    func put(_ value: Value) {
        self.value = value
        full.signal()
    }

    func take() -> Value {
        full.wait()
        return value!
    }
}

/// A temporary folder that goes with the test.
final class Folder {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appendingPathComponent("vigla-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    func file(_ name: String, _ text: String) throws -> String {
        let file = url.appendingPathComponent(name)
        try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: file)
        return file.path
    }
}

/// `vigla serve` on a free port, until the test lets go of it.
final class RunningHub {
    let process: Process
    let readyLine: String
    let folder: Folder
    /// `http://127.0.0.1:PORT`; `https://…` when there is nothing else.
    let url: String
    /// `https://127.0.0.1:PORT`, empty without TLS.
    let secureURL: String
    private let output: FileHandle
    private let errorFile: URL

    struct NotReady: Error { let error: String }

    /// - Parameter shell: what prepares the process, in the folder; it becomes the hub.
    init(_ arguments: [String], environment: [String: String] = [:], folder: Folder? = nil, program: String = "vigla", shell: String? = nil) throws {
        let folder = try folder ?? Folder()
        self.folder = folder
        if let shell {
            process = Command.process(["-c", "\(shell) exec \"$0\" \"$@\"", Command.folder.appendingPathComponent(program).path, "serve"] + arguments, environment, folder.url, "/bin/sh")
        } else {
            process = Command.process(["serve"] + arguments, environment, folder.url, program)
        }
        let pipe = Pipe()
        output = pipe.fileHandleForReading
        errorFile = folder.url.appendingPathComponent("error-\(UUID().uuidString).log")
        _ = FileManager.default.createFile(atPath: errorFile.path, contents: nil)
        process.standardOutput = pipe
        process.standardError = try FileHandle(forWritingTo: errorFile)
        try process.run()
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

    var error: String { (try? String(contentsOf: errorFile, encoding: .utf8)) ?? "" }

    /// A connection to the hub.
    func connection() throws -> FileHandle {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        let connection = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = (url.split(separator: ":").last.flatMap { UInt16($0) } ?? 0).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
        guard connected == 0 else { throw NotReady(error: "nobody listens") }
        return connection
    }

    /// All that the hub answers to a GET, head included.
    func page(_ target: String) throws -> String {
        let connection = try connection()
        try connection.write(contentsOf: Data("GET \(target) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8))
        return String(decoding: try connection.readToEnd() ?? Data(), as: UTF8.self)
    }

    /// Sends a signal and waits for the end; a program that does not end within 20 s is killed, which shows in the result.
    func stop(_ number: Int32 = SIGTERM) -> Int32 {
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
