import HubEngine
import JSONTree

/// The unanswered requests of a session, in bytes.
struct UnansweredRequests {
    /// Bytes of requests whose mark the database has not returned.
    var bytes = 0
    /// The bytes that are not yet covered by a submitted mark.
    var unmarked = 0
    /// The carrier has stopped reading.
    var isHolding = false
}

/// The close frame that ends a session.
struct SessionClose {
    var code: UInt16
    var reason: String

    init(_ code: UInt16, _ reason: String) { (self.code, self.reason) = (code, reason) }
}

/// Back-pressure, both ways:
///
/// ```
/// peer ──► carrier ──► requests … mark ──────────► database       over the limit: reading stops until marks come back
/// peer ◄── carrier ◄── answers, pushes … probe ◄── database       over the soft limit: the database conflates (Lag)
///             └── congested, drained ────────────────►┘
/// ```
extension Session {
    /// Submits a request to the database.
    /// - Parameters:
    ///   - size: bytes of its message, or of its values.
    ///   - hold: the budget's hold for them, if they are many.
    final func ask(_ request: Request, _ token: Int64, size: Int, hold: (any MemoryReservation)? = nil) {
        let cost = size + server.settings.limits.requestOverheadBytes
        home.willStart(database, isWrite: request.isWrite)
        let isFull = database.enqueue(request, from: self, token: token, size: cost, hold: hold)
        let limit = server.settings.limits.requestBytes
        unanswered.bytes += cost
        unanswered.unmarked += cost
        let mustHold = isFull || unanswered.bytes > limit
        guard mustHold || unanswered.unmarked > limit / 4 else { return }
        _ = database.enqueue(.mark(bytes: unanswered.unmarked), from: self)
        unanswered.unmarked = 0
        if mustHold { holdInput() }
    }

    private func holdInput() {
        guard !unanswered.isHolding else { return }
        unanswered.isHolding = true
        carrier.holdInput(true)
    }

    /// A mark came back: the requests before it are done.
    final func marked(_ bytes: Int) {
        if let outputQueue { return outputQueue.add(.marked(bytes)) }
        complete(bytes)
    }

    final func complete(_ bytes: Int) {
        unanswered.bytes -= bytes
        if let closing, unanswered.bytes == 0 { return carrier.close(closing.code, closing.reason) }
        resumeInputIfPossible()
    }

    /// Closes the session behind the answers to all its requests; at least one is pending.
    final func closeWhenAnswered(_ closing: SessionClose) {
        self.closing = closing
        database.submit(.mark(bytes: unanswered.unmarked), from: self)
        unanswered.unmarked = 0
    }

    /// Stops or resumes reading after the queue behind a credential check has changed.
    final func holdIfNeeded() {
        if waitingBytes > server.settings.limits.requestBytes { holdInput() } else { resumeInputIfPossible() }
    }

    private func resumeInputIfPossible() {
        let limit = server.settings.limits.requestBytes
        guard unanswered.isHolding, unanswered.bytes - unanswered.unmarked <= limit / 2, waitingBytes <= limit else { return }
        unanswered.isHolding = false
        carrier.holdInput(false)
    }

    /// The peer reads too slowly: the database conflates changes from now on.
    final func congested() {
        isDrainExpected = true
        database.submit(.congested, from: self)
    }

    /// The carrier has sent all output.
    final func drained() {
        guard isDrainExpected, outputQueue == nil else { return }
        isDrainExpected = false
        database.submit(.drained, from: self)
    }

    /// The database asks for a `drained` report.
    final func probe() {
        if let outputQueue { return outputQueue.add(.probe) }
        isDrainExpected = true
        carrier.reportDrain()
    }
}
