import Dispatch
import Synchronization

/// Frees a value in the background. Freeing a large tree takes some tens of nanoseconds per object, too long for a net loop or a
/// database's queue.
final class Retired: Sendable {
    private let held: Mutex<(any Sendable)?>
    private static let queue = DispatchQueue(label: "vigla.retired", qos: .utility)

    init(_ held: any Sendable) { self.held = Mutex(held) }

    /// Releases the value on a background queue. It is freed there if the caller holds no other reference.
    func retire(then done: @escaping @Sendable () -> Void = {}) {
        Self.queue.async { [self] in
            let last = held.withLock { held in
                defer { held = nil }
                return held
            }
            withExtendedLifetime(last) {}
            done()
        }
    }
}
