import Testing
@testable import HubEngine

/// Writes that wait for their turn to be prepared; a started one is no longer retained.
@Suite(.timeLimit(.minutes(30))) struct PreparationTurnsTests {
    private final class Held: Sendable {}

    @Test func turns_keepNothing_ofWhatHasBegun() {
        let turns = PreparationTurns()
        turns.enqueue("u", limit: 1) { true }
        var held: Held? = Held()
        weak let kept = held
        turns.enqueue("u", limit: 1) { [held] in held != nil }
        for _ in 0..<3 { turns.enqueue("u", limit: 1) { true } }
        held = nil
        #expect(kept != nil)
        turns.done("u")
        #expect(kept == nil)
    }
}
