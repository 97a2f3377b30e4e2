import ArgumentParser
import CBaseline

/// Runs one workload between marks, for a program that counts: a warm-up, then rounds of `count` times and twice as many.
///
///     start, prepare, warm up │ count │ 2 × count │ count │ 2 × count │ …          │ is a call of `cbaseline_mark`
struct RunWorkload: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "workload", abstract: "One workload of `instructions`.", shouldDisplay: false)

    @Argument var name: String

    func run() throws {
        guard let workload = Workload.all.first(where: { $0.name == name }) else { throw ValidationError("there is no workload \(name)") }
        let work = try workload.prepare()
        try work(workload.count)
        cbaseline_mark()
        for _ in 0..<InstructionCount.rounds {
            try work(workload.count)
            cbaseline_mark()
            try work(2 * workload.count)
            cbaseline_mark()
        }
    }
}
