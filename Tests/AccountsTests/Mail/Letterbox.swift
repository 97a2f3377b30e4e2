import Foundation
import Synchronization

@testable import Accounts

/// Where letters of a test arrive; they are taken out one by one, in the order of their coming.
final class Letterbox: LetterCarrier {
    private struct State {
        var letters: [Letter] = []
        var waiting: [CheckedContinuation<Letter, Never>] = []
    }

    private let state = Mutex(State())

    func carry(_ letter: Letter) async throws(LetterFault) {
        let reader = state.withLock { state -> CheckedContinuation<Letter, Never>? in
            guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
            state.letters.append(letter)
            return nil
        }
        reader?.resume(returning: letter)
    }

    /// The next letter; waits for it.
    func next() async -> Letter {
        await withCheckedContinuation { continuation in
            let letter = state.withLock { state -> Letter? in
                guard state.letters.isEmpty else { return state.letters.removeFirst() }
                state.waiting.append(continuation)
                return nil
            }
            if let letter { continuation.resume(returning: letter) }
        }
    }

    /// Letters that have come and were not taken.
    var count: Int { state.withLock { $0.letters.count } }
}

extension Letter {
    /// The code in its link.
    var code: String? { link?.components(separatedBy: "oobCode=").last?.prefix { $0 != "&" }.description }
}
