internal import CLinux
internal import Glibc
internal import Synchronization

extension Listener {
    private static let acceptsPerBatch = 256
    /// How long accepting rests when the system has no descriptor to give: the backlog keeps the peers meanwhile, and
    /// the level-triggered poller would otherwise report them again at once, for ever.
    private static let restMs = 100

    struct Accepted: Sendable {
        let fd: Int32
        let peer: SocketAddress
    }

    func join(_ group: EventLoopGroup, _ makeHandler: @escaping @Sendable (Connection) -> any ConnectionHandler) {
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
        serving = Serving(group: group, loop: loop, registered: registered, makeHandler: makeHandler)
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

    /// Takes up to a batch of waiting peers and deals them out; what is left is reported again by the poller.
    func acceptBatch() {
        guard let serving else { return }
        let loops = serving.group.loops
        var dealt: [[Accepted]] = Array(repeating: [], count: loops.count)
        for socket in serving.registered { accept(from: socket.fd, serving, &dealt) }
        for (loop, batch) in zip(loops, dealt) where !batch.isEmpty {
            let makeHandler = serving.makeHandler
            if loop === serving.loop {
                for accepted in batch { loop.adopt(accepted, makeHandler) }
            } else {
                loop.execute { for accepted in batch { loop.adopt(accepted, makeHandler) } }
            }
        }
    }

    private func accept(from fd: Int32, _ serving: Serving, _ dealt: inout [[Accepted]]) {
        for _ in 0..<Self.acceptsPerBatch {
            var storage = sockaddr_storage()
            let accepted = vigla_accept(fd, &storage)
            guard accepted >= 0 else {
                switch -accepted {
                case EMFILE, ENFILE, ENOBUFS, ENOMEM: rest(serving)
                default: break  // EAGAIN: none waiting. ECONNABORTED and the like: that peer is gone; reported again.
                }
                return
            }
            guard let peer = SocketAddress(&storage) else {
                _ = vigla_close(accepted)
                continue
            }
            dealt[serving.group.next().index].append(Accepted(fd: accepted, peer: peer))
        }
    }

    private func rest(_ serving: Serving) {
        let loop = serving.loop
        loop.counting.acceptFailures += 1
        for socket in serving.registered { loop.poller.change(socket.fd, tag: socket.tag, to: []) }
        loop.schedule(afterMs: Self.restMs, everyMs: nil) {
            for socket in self.serving?.registered ?? [] {
                loop.poller.change(socket.fd, tag: socket.tag, to: .read)
            }
        }
    }
}

extension EventLoop {
    /// Makes a connection of a connected descriptor, and its handler. Reading begins with the next events.
    /// False, with the descriptor closed, when the loop cannot take it.
    @discardableResult
    func adopt(
        _ accepted: Listener.Accepted, _ makeHandler: (Connection) -> any ConnectionHandler
    ) -> Bool {
        guard phase == .running else {
            _ = vigla_close(accepted.fd)
            return false
        }
        _ = vigla_set_no_delay(accepted.fd)
        let tag = slots.reserve()
        do throws(NetError) {
            try poller.add(accepted.fd, tag: tag, for: .read)
        } catch {
            slots.free(tag)
            counting.acceptFailures += 1
            _ = vigla_close(accepted.fd)
            return false
        }
        counting.opened += 1
        let connection = Connection(loop: self, fd: accepted.fd, tag: tag, remoteAddress: accepted.peer)
        slots.occupy(tag, .connection(connection))
        connection.handler = makeHandler(connection)
        return true
    }
}
