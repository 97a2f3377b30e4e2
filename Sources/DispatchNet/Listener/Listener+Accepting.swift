internal import CLinux
internal import Glibc
internal import Synchronization

extension Listener {
    private static let acceptsPerBatch = 256
    /// Milliseconds that accepting pauses when the system has no descriptor: otherwise the level-triggered poller would report the waiting
    /// peers again immediately, forever.
    private static let restMs = 100

    struct Accepted: Sendable {
        let fd: Int32
        let peer: SocketAddress
    }

    func join(
        _ group: EventLoopGroup, _ tls: TLSServer?, _ admission: Admission?,
        _ makeHandler: @escaping @Sendable (Connection) -> any ConnectionHandler
    ) {
        let loop = group.loops[0]
        guard loop.phase == .running else { return closeDescriptors() }
        var registered: [(Int32, UInt64)] = []
        for fd in sockets.withLock({ $0.descriptors }) {
            let tag = loop.slots.reserve()
            do throws(NetError) {
                try loop.poller.add(fd, tag: tag, for: .read)
                loop.slots.occupy(tag, .listener(self))
                registered.append((fd, tag))
            } catch {
                loop.slots.free(tag)
                loop.counting.acceptFailures += 1
            }
        }
        reserve = vigla_reserve()
        serving = Serving(group: group, loop: loop, registered: registered, tls: tls, admission: admission, makeHandler: makeHandler)
    }

    func leave() {
        if let serving {
            for socket in serving.registered {
                serving.loop.poller.remove(socket.fd)
                serving.loop.slots.free(socket.tag)
            }
            self.serving = nil
        }
        closeDescriptors()
    }

    /// Accepts up to a batch of waiting peers and distributes them to the loops; the poller reports the rest again.
    func acceptBatch() {
        guard let serving else { return }
        let loops = serving.group.loops
        var dealt: [[Accepted]] = Array(repeating: [], count: loops.count)
        for socket in serving.registered { accept(from: socket.fd, serving, &dealt) }
        for (loop, batch) in zip(loops, dealt) where !batch.isEmpty {
            let (makeHandler, tls, admission) = (serving.makeHandler, serving.tls, serving.admission)
            if loop === serving.loop {
                for accepted in batch { loop.adopt(accepted, tls?.role, admission, makeHandler) }
            } else {
                loop.execute { for accepted in batch { loop.adopt(accepted, tls?.role, admission, makeHandler) } }
            }
        }
    }

    private func accept(from fd: Int32, _ serving: Serving, _ dealt: inout [[Accepted]]) {
        let nowNs = serving.admission == nil ? 0 : vigla_monotonic_ns()
        for _ in 0..<Self.acceptsPerBatch {
            if let waitMs = serving.admission?.waitMs(nowNs: nowNs) { return rest(serving, waitMs) }
            var storage = sockaddr_storage()
            let accepted = vigla_accept(fd, &storage)
            guard accepted >= 0 else {
                switch -accepted {
                case EMFILE, ENFILE:
                    shed(from: fd, serving)
                    rest(serving, Self.restMs)
                case ENOBUFS, ENOMEM: rest(serving, Self.restMs)
                default: break  // EAGAIN: none waiting. ECONNABORTED and the like: that peer is gone; reported again.
                }
                return
            }
            guard let peer = SocketAddress(&storage) else {
                _ = vigla_close(accepted)
                continue
            }
            if serving.admission?.admit(peer, nowNs: nowNs) != nil {
                _ = vigla_close_reset(accepted)
                continue
            }
            dealt[serving.group.place().index].append(Accepted(fd: accepted, peer: peer))
        }
    }

    /// Closes the connections that wait for a descriptor, instead of leaving them without an answer: the reserved descriptor accepts and
    /// closes them one by one.
    private func shed(from fd: Int32, _ serving: Serving) {
        serving.loop.counting.acceptFailures += 1
        for _ in 0..<Self.acceptsPerBatch {
            guard reserve >= 0 else { break }
            _ = vigla_close(reserve)
            var storage = sockaddr_storage()
            let accepted = vigla_accept(fd, &storage)
            if accepted >= 0 {
                // Counted before the close, so that the counter is right when the peer sees the close.
                serving.admission?.refuse(.descriptors)
                _ = vigla_close_reset(accepted)
            }
            reserve = vigla_reserve()
            if accepted < 0 { break }
        }
        if reserve < 0 { reserve = vigla_reserve() }
    }

    /// Pauses accepting; peers wait in the system's queue.
    private func rest(_ serving: Serving, _ restMs: Int) {
        let loop = serving.loop
        for socket in serving.registered { loop.poller.change(socket.fd, tag: socket.tag, to: []) }
        loop.schedule(afterMs: restMs, everyMs: nil) {
            for socket in self.serving?.registered ?? [] {
                loop.poller.change(socket.fd, tag: socket.tag, to: .read)
            }
        }
    }
}

extension EventLoop {
    /// Creates a connection and its handler from a connected descriptor; with TLS the handler is created after the handshake. Reading begins with the
    /// next events. False, with the descriptor closed, when the loop cannot register it.
    @discardableResult
    func adopt(
        _ accepted: Listener.Accepted, _ role: TLSRole?, _ admission: Admission?,
        _ makeHandler: @escaping (Connection) -> any ConnectionHandler
    ) -> Bool {
        guard phase == .running else {
            refuse(accepted, admission)
            return false
        }
        _ = vigla_set_no_delay(accepted.fd)
        if settings.sendBufferBytes > 0 { _ = vigla_set_send_buffer(accepted.fd, Int32(clamping: settings.sendBufferBytes)) }
        let tag = slots.reserve()
        do throws(NetError) {
            try poller.add(accepted.fd, tag: tag, for: .read)
        } catch {
            slots.free(tag)
            counting.acceptFailures += 1
            refuse(accepted, admission)
            return false
        }
        counting.opened += 1
        let connection = Connection(loop: self, fd: accepted.fd, tag: tag, remoteAddress: accepted.peer)
        connection.admission = admission
        slots.occupy(tag, .connection(connection))
        if let role { connection.beginTLS(role, makeHandler) } else { connection.handler = makeHandler(connection) }
        return true
    }

    private func refuse(_ accepted: Listener.Accepted, _ admission: Admission?) {
        _ = vigla_close(accepted.fd)
        population.wrappingSubtract(1, ordering: .relaxed)
        admission?.leave(accepted.peer)
    }
}
