import Glibc
import JSONTree
import Testing

/// Random runs of simulated clients against the naive model. `VIGLA_MODEL_OPERATIONS` sets the number of steps (by default a few seconds' worth),
/// `VIGLA_MODEL_SEED` repeats one run.
@Suite(.timeLimit(.minutes(30))) struct ModelTests {
    private static let stepsPerRun = 500

    private static func number(_ name: String) -> UInt64? { getenv(name).flatMap { UInt64(String(cString: $0)) } }

    @Test func caches_equalTheModel_afterEveryStep() {
        let operations = Self.number("VIGLA_MODEL_OPERATIONS").map { Int($0) } ?? 6_000
        let first = Self.number("VIGLA_MODEL_SEED")
        let seeds = first.map { $0...$0 } ?? 1...UInt64(max(1, operations / Self.stepsPerRun))
        for seed in seeds {
            var script = ModelScript(seed: seed)
            let steps = script.steps(Self.stepsPerRun)
            guard let (index, difference) = ModelWorld.difference(steps) else { continue }
            let least = Self.shrink(Array(steps[...index]))
            let lines = least.map { "    \($0)" }.joined(separator: "\n")
            Issue.record(
                "seed \(seed), step \(index): \(difference)\nin short:\n\(lines)\n\(ModelWorld.difference(least)?.what.description ?? "")")
            return
        }
    }

    /// The fewest steps that still fail: parts are left out, from halves down to single steps.
    private static func shrink(_ steps: [ModelStep]) -> [ModelStep] {
        var steps = steps
        var size = max(1, steps.count / 2)
        while true {
            var start = 0
            var hasShrunk = false
            while start < steps.count {
                var fewer = steps
                fewer.removeSubrange(start..<min(start + size, steps.count))
                if !fewer.isEmpty, let (index, _) = ModelWorld.difference(fewer) {
                    steps = Array(fewer[...index])
                    hasShrunk = true
                } else {
                    start += size
                }
            }
            if size == 1, !hasShrunk { return steps }
            size = max(1, size / 2)
        }
    }
}
