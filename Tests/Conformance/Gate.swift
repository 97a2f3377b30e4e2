import Dispatch
import Synchronization

/// Holds work back until it opens.
final class Gate: Sendable {
    private struct State {
        var isOpen = false
        var work: [@Sendable () -> Void] = []
    }

    private let state = Mutex(State())

    func whenOpen(_ work: @escaping @Sendable () -> Void) {
        let isOpen = state.withLock { state in
            if !state.isOpen { state.work.append(work) }
            return state.isOpen
        }
        if isOpen { work() }
    }

    func open() {
        let work = state.withLock { state in
            defer { state.work = [] }
            state.isOpen = true
            return state.work
        }
        for one in work { DispatchQueue.global().async(execute: one) }
    }
}
