internal import CLinux
internal import Glibc

extension Connection {
    /// Queues a frame of the loop for the end of the turn. This is the work done per delivery.
    @inline(__always)
    func enqueue(_ segment: Segment) {
        guard state == .open, segment.length > 0 else { return }
        loop.counting.deliveries &+= 1
        if pendingBytes == 0 {
            first = segment
        } else if more.isEmpty {
            if first.isFollowed(by: segment) { first.length += segment.length } else { more.append(segment) }
        } else {
            let last = more.count - 1
            if more[last].isFollowed(by: segment) { more[last].length += segment.length } else { more.append(segment) }
        }
        pendingBytes += Int(segment.length)
        if !isDirty { markDirty() }
    }

    @inline(__always)
    func markDirty() {
        guard !isDirty else { return }
        isDirty = true
        loop.willFlush(self)
    }

    /// Sends this turn's frames in one system call. Called once per turn for each dirty connection.
    func flush() {
        isDirty = false
        guard state != .closed else { return }
        if let tls {
            flushRecords(tls)
        } else if pendingBytes > 0 {
            if backlog == nil { sendPending() } else { keepPending(skipping: 0) }
        }
        if backlog != nil || tls != nil { backlogGrew(backlogBytes) }
        if state == .draining {
            if hasLeft { finishWriting() } else { boundClosing(loop.settings.drainTimeoutMs) }
        }
    }

    /// Whether the kernel has accepted everything.
    var hasLeft: Bool { backlog == nil && (tls?.unsentBytes ?? 0) == 0 }

    private func sendPending() {
        var count = describePending()
        // The kernel may accept megabytes for each of hundreds of peers, so the rest of a large frame is sent in the next turns. Not if the
        // remaining backlog would make fast peers count as slow.
        let share = loop.settings.sharedWriteBytes
        if pendingBytes > share, loop.isFlushingSeveral, loop.waitingBytes.value + pendingBytes < loop.settings.outboundTotalBytes / 2 {
            count = cut(count, to: share)
        }
        let sent = transmit(count)
        guard sent >= 0 else { return }
        if sent == pendingBytes { dropPending() } else { keepPending(skipping: sent) }
    }

    /// Fills the loop's vectors with this turn's frames and returns their number.
    func describePending() -> Int {
        var count = 1
        let vectors = loop.vectors
        vectors[0] = loop.frames.vector(first)
        for segment in more.prefix(EventLoop.vectorCapacity - 1) {
            vectors[count] = loop.frames.vector(segment)
            count += 1
        }
        return count
    }

    /// Cuts the loop's vectors down to `most` bytes; returns their new number.
    private func cut(_ count: Int, to most: Int) -> Int {
        var left = most
        for i in 0..<count {
            if left <= loop.vectors[i].iov_len {
                loop.vectors[i].iov_len = left
                return i + 1
            }
            left -= loop.vectors[i].iov_len
        }
        return count
    }

    /// Sends the first `count` of the loop's vectors in one system call. Returns the bytes accepted, 0 when the kernel has no room,
    /// negative when the connection has failed.
    func transmit(_ count: Int) -> Int {
        let sent = vigla_send(fd, loop.vectors, count)
        loop.counting.writes &+= 1
        if sent >= 0 {
            loop.counting.bytesSent &+= sent
            sentBytes?.add(sent)
            return sent
        }
        if sent == -Int(EAGAIN) { return 0 }
        // Bytes that the peer sent before a reset may be lost, as with any server.
        fail(Self.reason(errno: Int32(-sent)))
        return -1
    }

    /// Moves this turn's frames, except the bytes already sent, to the backlog, and waits for room.
    func keepPending(skipping sent: Int) {
        var skip = sent
        var kept = backlog ?? Backlog()
        backlog = nil
        kept.append(first, of: loop.frames, skipping: &skip)
        for segment in more { kept.append(segment, of: loop.frames, skipping: &skip) }
        loop.backlogChanged(by: pendingBytes - sent)
        backlog = kept
        dropPending()
        setInterest(.write, true)
    }

    func dropPending() {
        pendingBytes = 0
        first = .none
        if !more.isEmpty { more.removeAll(keepingCapacity: more.capacity <= 32) }
    }

    func dropBacklog() {
        loop.backlogChanged(by: -(backlog?.bytes ?? 0))
        backlog = nil
    }

    /// The kernel has room again.
    func writable() {
        if let tls { return writableRecords(tls) }
        // The kernel may accept megabytes of each of hundreds of fast readers: others would wait for that copy.
        let most = loop.isShared ? loop.settings.sharedWriteBytes : .max
        guard state != .closed, let filled = backlog?.fill(loop.vectors, limit: 64, most: most) else { return }
        let sent = transmit(filled.vectors)
        guard sent >= 0 else { return }
        backlog?.consume(sent)
        loop.backlogChanged(by: -sent)
        backlogSent(sent, left: backlog?.bytes ?? 0)
        // More than 64 pieces, the limit of the turn, or a short write: the level-triggered poller reports again when there is room.
        guard backlog?.isEmpty == true else { return }
        backlog = nil
        setInterest(.write, false)
        if state == .draining { finishWriting() } else { handler?.outboundDrained() }
    }

    // MARK: ending

    /// Everything was sent: sends close_notify and FIN, and waits for the peer's FIN.
    func finishWriting() {
        if let tls, !sendCloseNotify(tls) { return state == .closed ? () : boundClosing(loop.settings.drainTimeoutMs) }
        if peerFinished { return destroy(reset: false) }
        guard vigla_shutdown_write(fd) == 0 else { return destroy(reset: false) }
        state = .lingering
        setInterest(.read, true)
        boundClosing(loop.settings.lingerTimeoutMs)
    }

    /// Closes the descriptor after this time at the latest.
    private func boundClosing(_ limitMs: Int) {
        if state == .draining, closingTimer != nil { return }
        closingTimer?.cancel()
        closingTimer = loop.schedule(afterMs: limitMs, everyMs: nil) { [weak self] in
            guard let self else { return }
            self.destroy(reset: self.state == .draining)
        }
    }

    func fail(_ reason: CloseReason) {
        if state == .open { loop.willEnd(self, reason) }
        destroy(reset: true)
    }

    func destroy(reset: Bool) {
        guard state != .closed else { return }
        state = .closed
        closingTimer?.cancel()
        closingTimer = nil
        endCongestion()
        dropPending()
        dropBacklog()
        if let tls {
            tls.deadline?.cancel()
            loop.backlogChanged(by: -tls.countedBytes)
        }
        tls = nil
        _ = reset ? vigla_close_reset(fd) : vigla_close(fd)
        loop.didClose(self)
    }
}

extension TurnFrames {
    @inline(__always)
    func vector(_ segment: Segment) -> iovec {
        iovec(iov_base: blocks[Int(segment.block)].base + Int(segment.offset), iov_len: Int(segment.length))
    }
}

extension Backlog {
    fileprivate mutating func append(_ segment: Segment, of frames: TurnFrames, skipping skip: inout Int) {
        let passed = min(skip, Int(segment.length))
        skip -= passed
        append(
            frames.blocks[Int(segment.block)], offset: Int(segment.offset) + passed,
            count: Int(segment.length) - passed)
    }
}
