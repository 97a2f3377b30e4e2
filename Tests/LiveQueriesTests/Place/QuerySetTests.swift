import JSONTree
import TestSupport
import Testing

@testable import LiveQueries

struct QuerySetTests {
    /// Random writes against random live queries, with moving centres and overwritten places.
    @Test(arguments: Array(0..<UInt64(36)))
    func views_showWhatARecomputationShows_whateverIsWritten(_ seed: UInt64) {
        let steps = longRun.map { $0 / 36 } ?? 160
        for round in 0..<max(1, steps / 400) {
            let model = PlaceModel(seed &* 1_000 &+ UInt64(round))
            for step in 0..<min(steps, 400) {
                model.step()
                if model.faults.isEmpty { continue }
                Issue.record("seed \(seed), round \(round), step \(step): \(model.faults.prefix(3).joined(separator: "\n"))")
                return
            }
        }
    }
}
