package import Foundation

/// The built program as a child process.
package struct Command {
    /// Beside the test bundle, where the package manager puts it.
    package static let folder: URL = {
        let link = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        // The test runner may be the toolchain's; the bundle then stands in its arguments.
        let candidates = [link] + CommandLine.arguments.map { URL(fileURLWithPath: $0) }
        let folders = candidates.map { $0.deletingLastPathComponent() }
        return folders.first { FileManager.default.isExecutableFile(atPath: $0.appendingPathComponent("vigla").path) } ?? folders[0]
    }()

    package struct Result {
        package let code: Int32
        package let output: String
        package let error: String
    }

    /// Runs the program to its end. The environment is only what is given.
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
        let errors = Handover<Data>()
        let reader = Thread { errors.put(error.fileHandleForReading.readDataToEndOfFile()) }
        reader.start()
        let text = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return Result(
            code: process.terminationStatus, output: String(decoding: text, as: UTF8.self), error: String(
                decoding: errors.wait(), as: UTF8.self))
    }

    /// A process that is not started yet.
    /// - Parameter program: beside the tests, or an absolute path.
    package static func process(
        _ arguments: [String], _ environment: [String: String], _ directory: URL?, _ program: String = "vigla"
    ) -> Process {
        let process = Process()
        process.executableURL = program.hasPrefix("/") ? URL(fileURLWithPath: program) : folder.appendingPathComponent(program)
        process.arguments = arguments
        process.environment = environment
        if let directory { process.currentDirectoryURL = directory }
        return process
    }
}
