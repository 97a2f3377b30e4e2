package import Foundation

/// The built program as a child process.
package struct Command {
    /// The folder of the test bundle, where the package manager puts the program.
    package static let folder: URL = {
        let link = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        // The test runner may be the toolchain's; then its arguments contain the bundle.
        let candidates = [link] + CommandLine.arguments.map { URL(fileURLWithPath: $0) }
        let folders = candidates.map { $0.deletingLastPathComponent() }
        return folders.first { FileManager.default.isExecutableFile(atPath: $0.appendingPathComponent("vigla").path) } ?? folders[0]
    }()

    package struct Result {
        package let code: Int32
        package let output: String
        package let error: String
    }

    /// Runs the program to its end. Its environment contains only the given variables.
    package static func run(
        _ arguments: String..., environment: [String: String] = [:], input: String? = nil, in directory: URL? = nil,
        program: String = "vigla"
    ) throws -> Result {
        try run(arguments, environment: environment, input: input, in: directory, program: program)
    }

    package static func run(
        _ arguments: [String], environment: [String: String] = [:], input: String? = nil, in directory: URL? = nil,
        program: String = "vigla"
    ) throws -> Result {
        let (source, output, error) = (Pipe(), Pipe(), Pipe())
        let process = try start(
            arguments, environment, directory, program, input: .handle(source.fileHandleForReading),
            output: .handle(output.fileHandleForWriting), error: .handle(error.fileHandleForWriting))
        try output.fileHandleForWriting.close()
        try error.fileHandleForWriting.close()
        if let input { try source.fileHandleForWriting.write(contentsOf: Data(input.utf8)) }
        try source.fileHandleForWriting.close()
        // Both pipes are read while the program runs, so that neither can fill up.
        let errors = Handover<Data>()
        let reader = Thread { errors.put(error.fileHandleForReading.readDataToEndOfFile()) }
        reader.start()
        let text = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return Result(
            code: process.terminationStatus, output: String(decoding: text, as: UTF8.self), error: String(
                decoding: errors.wait(), as: UTF8.self))
    }

    /// Starts the program.
    /// - Parameter program: a name next to the tests, or an absolute path.
    package static func start(
        _ arguments: [String], _ environment: [String: String] = [:], _ directory: URL? = nil, _ program: String = "vigla",
        input: ChildProcess.Stream = .inherited, output: ChildProcess.Stream, error: ChildProcess.Stream = .inherited
    ) throws -> ChildProcess {
        try ChildProcess(
            program.hasPrefix("/") ? program : folder.appendingPathComponent(program).path, arguments, environment: environment,
            in: directory, input: input, output: output, error: error)
    }
}
