import Dispatch
import Synchronization

/// Where work runs whose cost follows the size of the data: encoding, hashing, sorting and checking of large values. It is done
/// on immutable trees, off the database queue, so that requests of others are carried out meanwhile.
public struct BackgroundWork: Sendable {
    private let submit: @Sendable (@escaping @Sendable () -> Void) -> Void

    /// - Parameter submit: runs the work soon, on any thread but the caller's queue.
    public init(_ submit: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void) { self.submit = submit }

    /// Runs the work soon, on a thread of its own choice. Work of one caller has no order.
    public func run(_ work: @escaping @Sendable () -> Void) { submit(work) }

    /// Work on so many serial queues; each piece goes to the queue with the fewest waiting.
    public static func queues(_ count: Int) -> BackgroundWork {
        let lines = BackgroundQueues(max(1, count))
        return BackgroundWork { lines.run($0) }
    }

    /// What a database uses that is told nothing else.
    public static let shared = BackgroundWork.queues(2)
}

/// Serial queues rather than a concurrent one, so that long work takes no more threads than these.
private final class BackgroundQueues: Sendable {
    private let queues: [DispatchQueue]
    private let depths: Mutex<[Int]>

    init(_ count: Int) {
        queues = (0..<count).map { DispatchQueue(label: "vigla.background.\($0)", qos: .utility) }
        depths = Mutex(Array(repeating: 0, count: count))
    }

    func run(_ work: @escaping @Sendable () -> Void) {
        let chosen = depths.withLock { depths in
            let chosen = depths.indices.min { depths[$0] < depths[$1] } ?? 0
            depths[chosen] += 1
            return chosen
        }
        queues[chosen].async { [self] in
            work()
            depths.withLock { $0[chosen] -= 1 }
        }
    }
}
