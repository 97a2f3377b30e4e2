internal import Dispatch
internal import Synchronization

/// The loops of a process, usually one per core. Must be shut down to release its descriptors.
public final class EventLoopGroup: Sendable {
    public let loops: [EventLoop]
    private let turn = Atomic<Int>(0)

    /// - Parameter count: at least 1; smaller numbers mean 1.
    public init(count: Int, settings: NetSettings = NetSettings()) throws(NetError) {
        var made: [EventLoop] = []
        for index in 0..<max(1, count) { made.append(try EventLoop(index: index, settings: settings)) }
        loops = made
    }

    /// The loops in rotation. From any thread.
    public func next() -> EventLoop {
        let ticket = turn.wrappingAdd(1, ordering: .relaxed).oldValue
        return loops[Int(UInt(bitPattern: ticket) % UInt(loops.count))]
    }

    /// Stops every listener and closes every connection with ``CloseReason/serverShutdown``, in good order for at most
    /// `graceMs`, then by reset. `done` is called on one of the loops' queues when all descriptors are closed; the
    /// loops still run `execute` blocks after that. Calling it again only adds another `done`.
    public func shutdown(graceMs: Int = 3_000, _ done: @escaping @Sendable () -> Void) {
        let group = DispatchGroup()
        for loop in loops {
            group.enter()
            loop.execute { loop.shutdown(graceMs: graceMs) { group.leave() } }
        }
        group.notify(queue: loops[0].queue, execute: done)
    }

    /// The blocking form of ``shutdown(graceMs:_:)``. Not to be called on a loop.
    public func shutdownAndWait(graceMs: Int = 3_000) {
        let closed = DispatchSemaphore(value: 0)
        shutdown(graceMs: graceMs) { closed.signal() }
        closed.wait()
    }
}
