import ArgumentParser

/// Measures Vigla against bare C servers, in alternating runs on the same machine: only the ratios are meaningful.
@main
struct ViglaBench: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "vigla-bench",
        abstract: "Measures Vigla and its transport against bare C servers.",
        subcommands: [
            Table.self, Echo.self, Fanout.self, Requests.self, Idle.self, Connect.self, Memory.self, Engine.self, RulesBench.self,
            HashBench.self, NearBench.self, QueriesBench.self, JournalBench.self, TokensBench.self, ClusterBench.self, Instructions.self,
            Systems.self, Reach.self, RunWorkload.self, SystemsStorm.self,
            ServeBaseline.self, ServeEcho.self, ServeFanout.self,
        ])
}
