import ArgumentParser

/// Request and answer: the C echo server and one built of Vigla's transport.
struct Echo: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Server CPU per echoed message, against bare C.")

    @Option(help: "Numbers of connections, separated by commas; one request at a time on each.")
    var connections = "1,100,1000"
    @Option(help: "Bytes per message.") var size = 64
    @Option(help: "Seconds per run.") var seconds = 3.0
    @Option(help: "Runs of each server.") var runs = 3
    @Option(help: "Loops of the subject; the baseline has one.") var loops = 1

    func validate() throws {
        guard (10...60_000).contains(size) else { throw ValidationError("--size is 10 to 60000") }
        guard seconds > 0, runs > 0, loops > 0 else { throw ValidationError("numbers must be above 0") }
        guard counts.allSatisfy({ $0 > 0 }), !counts.isEmpty else { throw ValidationError("--connections: numbers") }
    }

    private var counts: [Int] { connections.split(separator: ",").map { Int($0) ?? 0 } }

    func run() throws {
        raiseDescriptorLimit()
        for count in counts {
            let load = EchoLoad(connections: count, messageBytes: size, seconds: seconds)
            let comparison = Comparison(
                title: "echo, \(count) connections, \(size) bytes", baselineName: "c", subjectName: "dispatchnet",
                runs: runs)
            try comparison.measure {
                try load.run(against: ServerProcess(["serve-baseline", "echo"]))
            } subject: {
                try load.run(against: ServerProcess(["serve-echo", "--loops", "\(loops)"]))
            }
        }
    }
}
