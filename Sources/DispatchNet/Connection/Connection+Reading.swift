internal import CLinux
internal import Glibc

extension Connection {
    /// The kernel's readiness event for this connection.
    func ready(_ readiness: Readiness) {
        if readiness.contains(.writable) { writable() }
        if readiness.contains(.readable), interest.contains(.read) {
            if let tls, tls.engine.state == .handshaking, state == .open { delayHandshake(tls) } else { readable() }
        } else if readiness.contains(.broken), state != .closed {
            let errno = vigla_socket_error(fd)
            fail(Self.reason(errno: errno == 0 ? ECONNRESET : errno))
        }
    }

    /// Reads until the kernel has no more, or the turn's limit is reached. The limit is large while no other connection is ready, and small
    /// otherwise, because all ready connections wait for the work of this one's messages. It is smallest for a connection that is not
    /// known to send a lot: if it has more, it is served with those that do. A read that does not fill the buffer has emptied the socket;
    /// epoll is level-triggered, so whatever arrives after it is reported again.
    func readable() {
        let settings = loop.settings
        let shared = isHighVolume ? settings.sharedReadBytes : settings.highVolumeReadBytes + 1
        let capacity = loop.isShared ? min(shared, settings.readBufferBytes) : settings.readBufferBytes
        let most = loop.isShared ? 1 : settings.readsPerTurn
        var reads = 0
        while state != .closed, interest.contains(.read), reads < most {
            reads += 1
            let count = vigla_receive(fd, loop.readBuffer, capacity)
            isHighVolume = count > settings.highVolumeReadBytes
            if count > 0 {
                loop.counting.bytesReceived += count
                if let tls {
                    receivedRecords(UnsafeRawBufferPointer(start: loop.readBuffer, count: count), tls)
                } else if state == .open {
                    handler?.received(UnsafeMutableRawBufferPointer(start: loop.readBuffer, count: count))
                }
                if count < capacity { return }
            } else if count == 0 {
                if let tls { return finishedWithoutCloseNotify(tls) }
                return finishedByPeer()
            } else {
                if count != -Int(EAGAIN) { fail(Self.reason(errno: Int32(-count))) }
                return
            }
        }
    }

    func finishedByPeer() {
        peerFinished = true
        setInterest(.read, false)
        switch state {
        case .open:
            let answer = handler?.peerFinishedSending() ?? .close
            if answer == .close { close(.peerClosed) }
        case .lingering:
            destroy(reset: false)
        case .draining, .closed:
            break
        }
    }

    static func reason(errno: Int32) -> CloseReason {
        switch errno {
        case ECONNRESET, EPIPE, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH: .peerReset
        default: .systemError(errno)
        }
    }

    func setInterest(_ wanted: Interest, _ on: Bool) {
        var next = interest
        if on { next.insert(wanted) } else { next.remove(wanted) }
        guard next != interest else { return }
        interest = next
        loop.poller.change(fd, tag: tag, to: next)
    }
}
