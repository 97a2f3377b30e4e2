import ArgumentParser
import Dispatch
import DispatchNet
import Glibc
import ViglaClient

/// `watchme-simulation`: a Saturday night in Athens, against a hub that runs with `--dev` and WatchMe's rules.
@main
struct WatchMe: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watchme-simulation",
        abstract: "Walkers move through Athens, followers watch them, and every position is counted.",
        discussion: """
            Needs a hub with the example's rules: Examples/watchme/run starts one and this program.

            Exit code 0 when every follower saw every position, post and announcement in order and once, else 1.
            """)

    @Option(help: "Address of the hub.", transform: HubURL.init(argument:)) var url = HubURL(HubAddress())
    @Option(help: "How many people walk.") var walkers = 200
    @Option(help: "How many people watch. More than walkers: some are watched by several.") var followers = 300
    @Option(help: "How long they walk; 0 is until Ctrl-C.") var seconds = 60
    @Option(help: "Time between two positions of one walker.") var tickMs = 3_000
    @Option(help: "Seconds between two danger posts; 0 is none.") var dangerEvery = 5
    @Option(help: "Seconds between two announcements; 0 is none.") var announceEvery = 15
    @Option(help: "Chooses the ways they take.") var seed: UInt64 = 2004

    func validate() throws {
        guard (1...100_000).contains(walkers), (1...100_000).contains(followers) else { throw ValidationError("--walkers and --followers: 1 to 100000.") }
        guard seconds >= 0, dangerEvery >= 0, announceEvery >= 0 else { throw ValidationError("Times must not be negative.") }
        guard tickMs >= 10 else { throw ValidationError("--tick-ms: at least 10.") }
    }

    func run() throws {
        signal(SIGPIPE, SIG_IGN)
        let group = try EventLoopGroup(count: 1)
        let simulation = Simulation(self, on: group.next())
        let interrupts = [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: group.loops[0].queue)
            source.setEventHandler { simulation.wind() }
            source.resume()
            return source
        }
        simulation.start()
        withExtendedLifetime(interrupts) { dispatchMain() }
    }
}

extension HubURL {
    /// For the argument parser, whose closures may throw any error.
    fileprivate init(argument: String) throws { try self.init(argument) }
}
