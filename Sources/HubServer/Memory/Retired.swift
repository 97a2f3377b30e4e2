import Dispatch
import DispatchNet
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

/// The budget's hold for a pending response. It is released in the background, after the loop turn in which the response ends. By then
/// nothing on the loop retains the content, so the possibly long deallocation runs there.
final class BodyHold: Sendable {
    private let held: any Sendable
    private let loop: EventLoop

    init(_ held: any Sendable, _ loop: EventLoop) {
        self.held = held
        self.loop = loop
    }

    deinit {
        let last = Retired(held)
        loop.execute { last.retire() }
    }
}
