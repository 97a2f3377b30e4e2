import Dispatch

/// Passes a value from one thread to another.
package final class Handover<Value>: @unchecked Sendable {
    // because `full` orders the one write before the one read.
    private var value: Value?
    private let full = DispatchSemaphore(value: 0)

    package init() {}

    package func put(_ value: Value) {
        self.value = value
        full.signal()
    }

    /// Waits for the value.
    package func wait() -> Value {
        full.wait()
        return value!
    }
}
