import Dispatch
import Logging
import Scheduling

/// Called on the owner's queue.
protocol LogFollowerOwner: AnyObject, Sendable {
    /// A message that the tail has delivered; nil for one that no hub has written. The owner passes it to `advance`, and releases its
    /// slot in the tail's window.
    func delivered(_ message: LogMessage?, at sequence: UInt64, by tail: LogTail)
    func followerDid(_ report: FollowMachine.Report)
    /// Called every `ClusterSettings.sweepMs`.
    func sweep()
}

/// Follows one log from a place, across lost connections and missing messages: connects a `FollowMachine` with the log, its tail and
/// the clock.
///
/// ```
/// connection, clock, checks of the log ─► FollowMachine ─► check, tail: start, stop, restart
///                                               └────────► owner: what has changed
/// the tail's messages ─► owner ─► advance ─► FollowMachine: the next one?
/// ```
/// Confined to the owner's queue.
final class LogFollower: @unchecked Sendable {
    // Sendable: confined to `queue`; callbacks only hop to it.
    private let log: ShardLog
    private let queue: DispatchQueue
    private let settings: ClusterSettings
    private let scheduler: Scheduler
    private let logger: Logger
    private weak var owner: (any LogFollowerOwner)?
    private var machine: FollowMachine
    private var waiters = CatchUpWaiters()
    private var works: [ScheduledWork] = []
    private var tail: LogTail?
    /// Slots of the tail's window that `releaseSlots` releases.
    private var heldSlots = 0
    /// Resubscriptions of earlier tails.
    private var earlierRefetches = 0

    init(_ log: ShardLog, _ queue: DispatchQueue, _ settings: ClusterSettings, _ scheduler: Scheduler, _ logger: Logger) {
        (self.log, self.queue, self.settings, self.scheduler, self.logger) = (log, queue, settings, scheduler, logger)
        machine = FollowMachine(log: log.name, patienceMs: settings.regressionPatienceMs)
    }

    var state: FollowMachine.State { machine.state }
    var created: Int64 { machine.created }
    var newest: LogPlace { machine.newest }
    var sound: ShardLog.State? { machine.sound }
    var lastKnown: UInt64 { machine.lastKnown }
    /// How often the tail resubscribed after a gap or a silence.
    var refetches: Int { earlierRefetches + (tail?.refetches ?? 0) }

    /// Continues from another place. The next check starts the tail there.
    func restart(created: Int64, at place: LogPlace) { machine.restart(created: created, at: place) }

    /// Starts to follow; the owner is held weakly. A second call does nothing.
    func start(_ owner: any LogFollowerOwner) {
        guard machine.state != .closed, works.isEmpty else { return }
        self.owner = owner
        log.connection.whenChanged { [weak self] change in self?.hop { $0.connection(change) } }
        works = [
            scheduler.every(ms: settings.checkIntervalMs, on: queue) { [weak self] in self?.check(comparesProgress: true) },
            scheduler.every(ms: settings.sweepMs, on: queue) { [weak self] in self?.owner?.sweep() },
        ]
        check()
    }

    /// Ends following. No waiter is called.
    func close() {
        apply(.close)
        for work in works { work.cancel() }
    }

    private func hop(_ body: @escaping @Sendable (LogFollower) -> Void) { queue.async { [self] in body(self) } }

    // MARK: Checks

    /// Compares the log with the received messages, unless a check is in progress; repeats soon while the result is uncertain.
    func check(comparesProgress: Bool = false) {
        if !works.isEmpty { apply(.checkDue(comparesProgress: comparesProgress)) }
    }

    func checkLater() { scheduler.after(ms: settings.retryMs, on: queue) { [weak self] in self?.check() } }

    /// Stops appends until a check has found the log sound.
    func doubt() { machine.doubt() }

    /// Refuses the log until a check finds that it is sound after all.
    func refuse(_ reason: String) { apply(.refuse(reason: reason)) }

    private func connection(_ change: NatsConnection.Change) {
        switch change {
        case .connected: apply(.connected)
        case .disconnected, .closed: apply(.disconnected)
        }
    }

    private func apply(_ event: FollowMachine.Event) { carryOut(machine.receive(event)) }

    private func carryOut(_ actions: [FollowMachine.Action]) {
        for action in actions {
            switch action {
            case .check(let check):
                // Only a hub that has followed no log may create one.
                log.look(mayCreate: machine.created == 0, at: check.newest.sequence) { [weak self] found in
                    self?.hop { $0.apply(.checked(found, nowMs: $0.scheduler.steadyMs)) }
                }
            case .checkLater: checkLater()
            case .startTail(let first): startTail(from: first)
            case .restartTail: tail?.restart()
            case .stopTail: stopTail()
            case .report(let report): self.report(report)
            }
        }
    }

    private func report(_ report: FollowMachine.Report) {
        switch report {
        case .follows(wasRefusing: true):
            logger.notice("the cluster's log holds what this hub has applied, so it is followed again")
        case .refuses(let error, _): logger.critical("\(error)")
        case .checked(let check, .isSound): waiters.checked(check.number, last: machine.lastKnown)
        default: break
        }
        owner?.followerDid(report)
        if case .checked(let finished, _) = report, waiters.needCheck(after: finished.number) { check() }
    }

    // MARK: Tail

    private func startTail(from first: UInt64) {
        tail = log.tail(from: first) { [weak self] tail, sequence, bytes in
            let message = LogMessage(decoding: bytes)
            self?.hop { $0.delivered(message, at: sequence, by: tail) }
        } missing: { [weak self] tail, first in
            // What an earlier tail has missed, the current one reports as well.
            self?.hop { if tail === $0.tail { $0.apply(.missing(first: first)) } }
        }
    }

    private func stopTail() {
        tail?.stop()
        earlierRefetches += tail?.refetches ?? 0
        (tail, heldSlots) = (nil, 0)
    }

    private func delivered(_ message: LogMessage?, at sequence: UInt64, by tail: LogTail) {
        // From an earlier tail: the current one delivers it as well.
        guard tail === self.tail, let owner else { return tail.done() }
        owner.delivered(message, at: sequence, by: tail)
    }

    /// Resubscribes to a log from which not even heartbeats come.
    func restartIfSilent() { if machine.state == .following, let tail, tail.isSilent { tail.restart() } }

    /// Keeps the slot of a delivered message until `releaseSlots`.
    func holdSlot(of tail: LogTail) { if tail === self.tail { heldSlots += 1 } else { tail.done() } }

    /// Releases the slots of held messages, so that as many more are delivered.
    func releaseSlots() {
        for _ in 0..<heldSlots { tail?.done() }
        heldSlots = 0
    }

    // MARK: Messages

    /// Receives a message of the log, from the tail or as the acknowledgement of an own one; nil for one that no hub has written.
    func advance(to message: LogMessage?, at sequence: UInt64) -> FollowMachine.Step {
        let (step, actions) = machine.advance(to: message, at: sequence)
        if step == .damaged {
            logger.error("a message of the cluster's log is damaged and is ignored by all hubs", metadata: ["message": "\(sequence)"])
        }
        carryOut(actions)
        return step
    }

    /// The body of the record that the message completes.
    func assemble(_ message: LogMessage) -> [UInt8]? { machine.assemble(message) }

    /// Drops the parts of a record so far, because another message came.
    func interruptRecord() { machine.interruptRecord() }

    // MARK: Catching up

    /// Calls back when everything has arrived that the log contained at some moment after this call.
    /// - Parameter withinMs: the time after which `expireWaiters` gives up.
    func whenCaughtUp(withinMs: Int64 = .max, _ done: @escaping CatchUpWaiters.Completion) {
        let untilMs = withinMs == .max ? .max : scheduler.steadyMs + withinMs
        waiters.add(check: machine.checks + 1, untilMs: untilMs, done)
        check()
    }

    /// Calls the waiters that have everything up to a message.
    func reached(_ sequence: UInt64) { for done in waiters.takeReached(sequence) { done(true) } }

    /// Fails the waiters whose target is unknown after a check.
    func failWaiters(upTo check: Int = .max) { for done in waiters.takeUnknown(upTo: check) { done(false) } }

    func failAllWaiters() { for done in waiters.takeAll() { done(false) } }
    func expireWaiters() { for done in waiters.takeExpired(scheduler.steadyMs) { done(false) } }
}
