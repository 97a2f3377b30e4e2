import HubEngine
import JSONTree

/// What a session has asked and is not answered yet, by size.
struct Intake {
    /// Bytes of requests whose mark has not come back.
    var bytes = 0
    /// The part of them that no mark stands behind yet.
    var unmarked = 0
    /// The carrier reads nothing now.
    var isHolding = false
}

/// Back-pressure, both ways:
///
/// ```
/// peer ──► carrier ──► requests … mark ──────────► database       too much without its mark: the carrier stops reading
/// peer ◄── carrier ◄── answers, pushes … probe ◄── database       too much at the carrier: the database says less (Lag)
///             └── congested, drained ────────────────►┘
/// ```
extension Session {
    /// Hands a request to the database.
    /// - Parameters:
    ///   - size: bytes of the message that it came in, or of its values.
    ///   - hold: holds them in the budget, if they are many.
    final func ask(_ request: Request, _ token: Int64, size: Int, hold: (any NodeHold)? = nil) {
        let cost = size + server.settings.limits.requestOverheadBytes
        let isFull = database.submit(request, from: self, token: token, size: cost, hold: hold)
        let limit = server.settings.limits.requestBytes
        intake.bytes += cost
        intake.unmarked += cost
        let mustHold = isFull || intake.bytes > limit
        guard mustHold || intake.unmarked > limit / 4 else { return }
        database.submit(.mark(bytes: intake.unmarked), from: self)
        intake.unmarked = 0
        if mustHold { holdInput() }
    }

    private func holdInput() {
        guard !intake.isHolding else { return }
        intake.isHolding = true
        carrier.holdInput(true)
    }

    /// Requests are done.
    final func marked(_ bytes: Int) {
        if let outgoing { return outgoing.add(.marked(bytes)) }
        isDone(bytes)
    }

    final func isDone(_ bytes: Int) {
        intake.bytes -= bytes
        goOnIfPossible()
    }

    /// Requests wait for a credential, or do so no more.
    final func holdIfNeeded() {
        if waitingBytes > server.settings.limits.requestBytes { holdInput() } else { goOnIfPossible() }
    }

    private func goOnIfPossible() {
        let limit = server.settings.limits.requestBytes
        guard intake.isHolding, intake.bytes - intake.unmarked <= limit / 2, waitingBytes <= limit else { return }
        intake.isHolding = false
        carrier.holdInput(false)
    }

    /// The peer reads too slowly: the database says less from now on.
    final func congested() {
        owesDrain = true
        database.submit(.congested, from: self)
    }

    /// The peer has everything that it was sent.
    final func drained() {
        guard owesDrain, outgoing == nil else { return }
        owesDrain = false
        database.submit(.drained, from: self)
    }

    /// The database asks for `drained`.
    final func probe() {
        if let outgoing { return outgoing.add(.probe) }
        owesDrain = true
        carrier.reportDrain()
    }
}
