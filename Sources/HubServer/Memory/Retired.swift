import Dispatch
import Synchronization

/// Something that may be large and is no longer needed: its objects are let go of one by one, which takes some tens of
/// nanoseconds each, so not on a net loop or a database's queue.
final class Retired: Sendable {
    private let held: Mutex<(any Sendable)?>
    private static let queue = DispatchQueue(label: "vigla.retired", qos: .utility)

    init(_ held: any Sendable) { self.held = Mutex(held) }

    /// Lets go of it in the background: there it has no other holder, if the caller had none but this.
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
