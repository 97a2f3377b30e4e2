internal import CLinux
internal import Synchronization

typealias PlatformPoller = EpollPoller

/// `Poller` over Linux epoll, with a timerfd and an eventfd for the loop's own events.
final class EpollPoller: Poller, @unchecked Sendable {
    // Sendable: the batch is used on the loop's queue only, the doorbell is behind a Mutex, the rest never changes.
    let descriptor: Int32
    private let timer: Int32
    /// Nil once silenced, so that a late ring cannot reach a reused descriptor number.
    private let doorbell: Mutex<Int32?>
    private let batch: UnsafeMutablePointer<epoll_event>
    private let capacity = 512

    init() throws(NetError) {
        let (epoll, timer, doorbell) = (vigla_epoll_create(), vigla_timerfd_create(), vigla_eventfd_create())
        descriptor = epoll
        self.timer = timer
        self.doorbell = Mutex(doorbell)
        batch = .allocate(capacity: capacity)
        batch.initialize(repeating: epoll_event(), count: capacity)
        do throws(NetError) {
            guard epoll >= 0 else { throw NetError.system(call: "epoll_create1", errno: -epoll) }
            guard timer >= 0 else { throw NetError.system(call: "timerfd_create", errno: -timer) }
            guard doorbell >= 0 else { throw NetError.system(call: "eventfd", errno: -doorbell) }
            try add(timer, tag: PollerTag.timer, for: .read)
            try add(doorbell, tag: PollerTag.doorbell, for: .read)
        } catch {
            for fd in [epoll, timer, doorbell] where fd >= 0 { _ = vigla_close(fd) }
            throw error
        }
    }

    deinit { batch.deallocate() }

    func add(_ fd: Int32, tag: UInt64, for interest: Interest) throws(NetError) {
        let result = vigla_epoll_control(descriptor, vigla_epoll_add, fd, interest.epollBits, tag)
        guard result == 0 else { throw NetError.system(call: "epoll_ctl", errno: -result) }
    }

    func change(_ fd: Int32, tag: UInt64, to interest: Interest) {
        _ = vigla_epoll_control(descriptor, vigla_epoll_mod, fd, interest.epollBits, tag)
    }

    func remove(_ fd: Int32) {
        _ = vigla_epoll_control(descriptor, vigla_epoll_del, fd, 0, 0)
    }

    func collect(waiting: Bool) -> Int {
        max(0, Int(vigla_epoll_wait(descriptor, batch, Int32(capacity), waiting ? -1 : 0)))
    }

    @inline(__always)
    func event(_ i: Int) -> (tag: UInt64, readiness: Readiness) {
        let bits = vigla_event_bits(batch + i)
        var readiness: Readiness = []
        if bits & vigla_epollin != 0 { readiness.insert(.readable) }
        if bits & vigla_epollout != 0 { readiness.insert(.writable) }
        if bits & (vigla_epollerr | vigla_epollhup) != 0 { readiness.insert(.broken) }
        return (vigla_event_tag(batch + i), readiness)
    }

    func armTimer(atNs deadlineNs: UInt64) { _ = vigla_timerfd_arm(timer, max(1, deadlineNs)) }

    func ring() {
        doorbell.withLock { if let doorbell = $0 { _ = vigla_eventfd_signal(doorbell) } }
    }

    func acknowledge(_ tag: UInt64) {
        switch tag {
        case PollerTag.timer: _ = vigla_timerfd_clear(timer)
        case PollerTag.doorbell: doorbell.withLock { if let doorbell = $0 { _ = vigla_eventfd_clear(doorbell) } }
        default: break
        }
    }

    func silence() {
        doorbell.withLock { doorbell in
            if let open = doorbell { _ = vigla_close(open) }
            doorbell = nil
        }
    }

    func close() {
        silence()
        _ = vigla_close(timer)
        _ = vigla_close(descriptor)
    }
}

extension Interest {
    fileprivate var epollBits: UInt32 {
        (contains(.read) ? vigla_epollin : 0) | (contains(.write) ? vigla_epollout : 0)
    }
}
