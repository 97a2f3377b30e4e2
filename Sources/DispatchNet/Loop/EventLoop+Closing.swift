internal import Dispatch

extension EventLoop {
    /// Part of ``EventLoopGroup/shutdown(graceMs:_:)``.
    func shutdown(graceMs: Int, _ done: @escaping @Sendable () -> Void) {
        assertOnLoop()
        guard phase != .closed else { return done() }
        whenClosed.append(done)
        guard phase == .running else { return }
        phase = .closing
        for occupant in slots.occupants {
            switch occupant {
            case .connection(let connection): connection.close(.serverShutdown)
            case .listener(let listener): listener.leave()
            case .connector(let connector): connector.cancel()
            }
        }
        schedule(afterMs: graceMs, everyMs: nil) {
            for case .connection(let connection) in self.slots.occupants { connection.destroy(reset: true) }
        }
    }

    func finishClosing() {
        phase = .closed
        timers.removeAll()
        handshakes = HandshakeQueue(capacity: 1)
        poller.silence()
        source.cancel()
        for done in whenClosed { queue.async(execute: done) }
        whenClosed = []
    }
}
