internal import CLinux
internal import Dispatch
internal import Synchronization

/// The loops of a process, usually one per core. Must be shut down to release its descriptors.
public final class EventLoopGroup: Sendable {
    public let loops: [EventLoop]
    private let turn = Atomic<Int>(0)
    /// Nil when connections are distributed in rotation.
    private let placement: Mutex<Placement?>

    /// - Parameter count: at least 1; smaller numbers mean 1.
    public init(count: Int, settings: NetSettings = NetSettings()) throws(NetError) {
        var made: [EventLoop] = []
        let waitingBytes = ByteCounter()
        for index in 0..<max(1, count) { made.append(try EventLoop(index: index, settings: settings, waitingBytes: waitingBytes)) }
        loops = made
        let isFilled = settings.connectionsPerLoop > 0 && made.count > 1
        let now = vigla_monotonic_ns()
        placement = Mutex(isFilled ? Placement(room: settings.connectionsPerLoop, loops: made.count, nowNs: now) : nil)
        guard isFilled else { return }
        made[0].schedule(afterMs: Placement.readingMs, everyMs: Placement.readingMs) { [weak self] in
            guard let self else { return }
            let busyNs = loops.map(\.counters.busyNs)
            placement.withLock { $0?.read(busyNs, nowNs: vigla_monotonic_ns()) }
        }
    }

    /// The loops in rotation. From any thread.
    public func next() -> EventLoop {
        let ticket = turn.wrappingAdd(1, ordering: .relaxed).oldValue
        return loops[Int(UInt(bitPattern: ticket) % UInt(loops.count))]
    }

    /// The loop for an accepted connection, which it counts from now on. From any thread; O(loops).
    func place() -> EventLoop {
        let chosen = placement.withLock { placement in
            placement?.choose(loops.map { $0.population.load(ordering: .relaxed) })
        }
        let loop = if let chosen { loops[chosen] } else { next() }
        loop.placed()
        return loop
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
