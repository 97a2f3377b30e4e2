import Dispatch
import Synchronization

/// Values from loops, in order, for which a test's thread can wait.
final class Notes<Value: Sendable>: Sendable {
    private let values = Mutex<[Value]>([])
    private let added = DispatchSemaphore(value: 0)

    func add(_ value: Value) {
        values.withLock { $0.append(value) }
        added.signal()
    }

    /// All values recorded and not taken yet.
    @discardableResult
    func removeAll() -> [Value] {
        values.withLock { values in
            defer { values = [] }
            return values
        }
    }

    struct TimedOut: Error { let had: String }

    /// Waits for the next value; gives up after 20 s, so that a defect fails a test instead of hanging it.
    func next() throws -> Value {
        let deadline = DispatchTime.now() + 20
        while true {
            let value = values.withLock { $0.isEmpty ? nil : $0.removeFirst() }
            if let value { return value }
            guard added.wait(timeout: deadline) == .success else { throw TimedOut(had: "\(removeAll())") }
        }
    }

    /// Skips values until one fits.
    func next(where fits: (Value) -> Bool) throws -> Value {
        while true {
            let value = try next()
            if fits(value) { return value }
        }
    }
}
