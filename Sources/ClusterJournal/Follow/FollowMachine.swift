import Journal

/// How far a log was followed, and whether it can be followed and appended to. A pure value; `LogFollower` carries out its actions.
///
/// ```
/// opening ── a check: the log has all received messages ──► following ── the connection was lost, or messages are missing ──► opening
///    └─ it does not (three checks) ─► refusing ── it does again ──► following
/// ```
struct FollowMachine {
    enum State: Equatable {
        /// It is not known yet whether the log has all received messages.
        case opening
        case following
        /// The log is not the one that was followed.
        case refusing(JournalError)
        case closed
    }

    /// A comparison of the log with the received messages.
    struct Check: Equatable {
        let number: Int
        /// The newest message received when it began.
        let newest: LogPlace
        /// Whether the next such check may conclude that the consumer is stuck, if nothing arrives until then.
        let comparesProgress: Bool
    }

    enum CheckResult: Equatable {
        case isUncertain
        /// It is the same log, but the next message was removed from it.
        case isShortened(first: UInt64)
        case isRefused
        /// The log has all received messages, and is followed.
        case isSound
    }

    enum Event {
        case connected
        case disconnected
        case checkDue(comparesProgress: Bool)
        case checked(Result<ShardLog.State, ShardLog.StateFault>, nowMs: Int64)
        /// The running tail cannot continue: the log has no message between the newest and this one. An earlier tail reports nothing.
        case missing(first: UInt64)
        /// The log is not the one that was followed.
        case refuse(reason: String)
        case close
    }

    enum Action: Equatable {
        case check(Check)
        case checkLater
        case startTail(from: UInt64)
        case restartTail
        case stopTail
        case report(Report)
    }

    /// A change that the owner of the follower acts on.
    enum Report: Equatable {
        case disconnected(wasFollowing: Bool)
        case follows(wasRefusing: Bool)
        case isMissing(first: UInt64)
        case refuses(JournalError, reason: String)
        case checked(Check, CheckResult)
    }

    /// The outcome of a message.
    enum Step: Equatable {
        /// It was received before, or the log is not followed.
        case ignored
        /// It does not decode. All hubs skip it.
        case damaged
        /// It does not follow the newest message.
        case refused
        case next
    }

    let log: String
    private let patienceMs: Int64
    private(set) var state = State.opening
    /// When the log was created, ns since the epoch; 0 while unknown.
    private(set) var created: Int64 = 0
    /// The newest message that was received in order.
    private(set) var newest = LogPlace()
    /// The log at the last check that found it sound.
    private(set) var sound: ShardLog.State?
    /// The newest message that the servers have reported.
    private(set) var lastKnown: UInt64 = 0
    /// Number of checks that were started.
    private(set) var checks = 0
    private var assembler = RecordAssembler()
    private var verifier: LogVerifier
    private var check: Check?
    /// The newest message at the last check that compared progress.
    private var compared = LogPlace()
    /// The newest message when a check last found the log to begin behind the next one; nil after a sound check.
    private var shortenedBehind: LogPlace?

    /// - Parameter patienceMs: time for which the servers may report fewer messages than were received.
    init(log: String, patienceMs: Int64) {
        (self.log, self.patienceMs) = (log, patienceMs)
        verifier = LogVerifier(patienceMs: patienceMs)
    }

    /// Continues from another place: that of a data folder, or of an imported snapshot.
    mutating func restart(created: Int64, at place: LogPlace) {
        (self.created, newest, compared, shortenedBehind) = (created, place, LogPlace(), nil)
        assembler = RecordAssembler()
        verifier = LogVerifier(patienceMs: patienceMs)
        if case .refusing = state { state = .opening }
    }

    // MARK: The log

    mutating func receive(_ event: Event) -> [Action] {
        if state == .closed { return [] }
        switch event {
        case .connected: return startCheck(comparesProgress: false)
        case .disconnected:
            let wasFollowing = state == .following
            return stopFollowing() + [.report(.disconnected(wasFollowing: wasFollowing))]
        case .checkDue(let comparesProgress): return startCheck(comparesProgress: comparesProgress)
        case .checked(let found, let nowMs):
            guard let check else { return [] }
            self.check = nil
            return checked(found, check, nowMs)
        case .missing(let first): return missing(first)
        case .refuse(let reason): return refuse(reason)
        case .close:
            state = .closed
            return [.stopTail]
        }
    }

    /// Stops appends until a check has found the log sound; the tail continues.
    mutating func doubt() { if state == .following { state = .opening } }

    private mutating func stopFollowing() -> [Action] {
        guard state == .following else { return [] }
        state = .opening
        return [.stopTail]
    }

    private mutating func missing(_ first: UInt64) -> [Action] {
        switch state {
        case .following: stopFollowing() + [.report(.isMissing(first: first))] + startCheck(comparesProgress: false)
        // The tail continues here only after `doubt`, and would subscribe again and again. The check that ends the doubt finds the same, or
        // starts a tail that reports it while the log is followed.
        case .opening: [.stopTail]
        // No tail runs. Only a check decides whether the log is followed again.
        case .refusing, .closed: []
        }
    }

    private mutating func startCheck(comparesProgress: Bool) -> [Action] {
        guard check == nil else { return [] }
        checks += 1
        let next = Check(number: checks, newest: newest, comparesProgress: comparesProgress)
        check = next
        return [.check(next)]
    }

    private mutating func checked(
        _ found: Result<ShardLog.State, ShardLog.StateFault>, _ check: Check, _ nowMs: Int64
    ) -> [Action] {
        let finding = verifier.receive(found, created: created, newest: check.newest, nowMs: nowMs)
        switch (finding, found) {
        case (.isAnother(let reason), _): return refuse(reason) + [.report(.checked(check, .isRefused))]
        case (.isShortened(let first), .success(let log)) where first > newest.sequence + 1:
            lastKnown = log.last
            return isShortened(first: first, check)
        case (.isSound, .success(let log)): return isSound(log, check) + [.report(.checked(check, .isSound))]
        case (.isOpen, _):
            return [.report(.checked(check, .isUncertain))] + (state == .following ? [] : [.checkLater])
        case (.isShortened, _), (.isSound, _): return [.report(.checked(check, .isUncertain))]
        }
    }

    /// Handles a log that begins behind the next message.
    ///
    /// While the log is followed, the first such check is uncertain: the tail may have delivered the missing messages already, and they wait
    /// for a slot of its window. The next check decides, unless something was received between the two. It comes within
    /// `ClusterSettings.checkIntervalMs`, and at once if a caller waits for it. A wrong decision would cost more than the delay: an operator
    /// has to repair a shared log that is refused, and to restart a hub whose shard is behind.
    ///
    /// Until then nothing wrong is appended or served:
    /// * The log has newer messages than `newest`. The servers take a record only behind the last message, so every append is a conflict.
    /// * The check sets no target for `CatchUpWaiters`. A caller of `SharedStream.sync` gets false; one of a shard continues to wait.
    private mutating func isShortened(first: UInt64, _ check: Check) -> [Action] {
        if state == .following, check.newest != shortenedBehind {
            shortenedBehind = check.newest
            return [.report(.checked(check, .isUncertain))]
        }
        if state == .following { state = .opening }
        // After `doubt` the tail runs, too. Its messages must not reach a folder that a snapshot replaces.
        return [.stopTail, .report(.checked(check, .isShortened(first: first)))]
    }

    private mutating func isSound(_ log: ShardLog.State, _ check: Check) -> [Action] {
        (sound, shortenedBehind) = (log, nil)
        lastKnown = log.last
        if created != log.created {
            created = log.created
            doubt()
        }
        guard state == .following else {
            let wasRefusing = state != .opening
            state = .following
            return [.stopTail, .startTail(from: newest.sequence + 1), .report(.follows(wasRefusing: wasRefusing))]
        }
        guard check.comparesProgress else { return [] }
        defer { compared = check.newest }
        // Nothing has arrived since the last such check although the log has more: the consumer is stuck.
        return log.last > check.newest.sequence && check.newest == compared && check.newest == newest ? [.restartTail] : []
    }

    /// Refuses a log that is not the followed one, or is behind it: nothing is appended, and nothing is rolled back here.
    private mutating func refuse(_ reason: String) -> [Action] {
        let error = JournalError.regressed(log: log, reason: reason)
        if state == .refusing(error) { return [] }
        state = .refusing(error)
        return [.stopTail, .report(.refuses(error, reason: reason))]
    }

    // MARK: Messages

    /// Receives a message of the log; nil for one that no hub has written.
    mutating func advance(to message: LogMessage?, at sequence: UInt64) -> (step: Step, actions: [Action]) {
        guard sequence == newest.sequence + 1, state == .following || state == .opening else { return (.ignored, []) }
        guard let message else {
            newest = LogPlace(sequence: sequence, id: 0)
            assembler.interrupt()
            return (.damaged, [])
        }
        guard message.previous == newest.id else {
            return (.refused, refuse("message \(sequence) does not follow the one that this hub has received before it"))
        }
        newest = LogPlace(sequence: sequence, id: message.id)
        return (.next, [])
    }

    /// The body of the record that the message completes.
    mutating func assemble(_ message: LogMessage) -> [UInt8]? { assembler.receive(message) }

    /// Drops the parts of a record so far, because another message came.
    mutating func interruptRecord() { assembler.interrupt() }
}
