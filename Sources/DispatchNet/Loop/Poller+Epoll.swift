internal import CLinux

/// `Poller` over Linux epoll.
struct EpollPoller: Poller {
    let descriptor: Int32
    private let batch: UnsafeMutablePointer<epoll_event>
    private let capacity = 512

    init() throws(NetError) {
        let fd = vigla_epoll_create()
        guard fd >= 0 else { throw NetError.system(call: "epoll_create1", errno: -fd) }
        descriptor = fd
        batch = .allocate(capacity: capacity)
        batch.initialize(repeating: epoll_event(), count: capacity)
    }

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

    func collect(withinMs: Int32) -> Int {
        max(0, Int(vigla_epoll_wait(descriptor, batch, Int32(capacity), withinMs)))
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

    func close() {
        _ = vigla_close(descriptor)
        batch.deallocate()
    }
}

extension Interest {
    fileprivate var epollBits: UInt32 {
        (contains(.read) ? vigla_epollin : 0) | (contains(.write) ? vigla_epollout : 0)
    }
}
