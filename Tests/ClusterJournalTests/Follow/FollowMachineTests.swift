import Journal
import Testing

@testable import ClusterJournal

/// Following a log, without servers: when the tail starts and stops, and what is reported to the owner.
@Suite(.timeLimit(.minutes(30))) struct FollowMachineTests {
    private var machine = FollowMachine(log: "L", patienceMs: 1_000)

    private func log(created: Int64 = 1, first: UInt64 = 1, last: UInt64, id: UInt64? = nil) -> ShardLog.State {
        ShardLog.State(created: created, first: first, last: last, id: id, leader: nil)
    }

    private func message(_ id: UInt64, after previous: UInt64) -> LogMessage {
        LogMessage(id: id, previous: previous, hub: 1, part: 0, parts: 1, body: [7])
    }

    /// Begins a check and returns its actions.
    private mutating func check(
        _ found: Result<ShardLog.State, ShardLog.StateFault>, comparesProgress: Bool = false, nowMs: Int64 = 0
    ) -> [FollowMachine.Action] {
        _ = machine.receive(.checkDue(comparesProgress: comparesProgress))
        return machine.receive(.checked(found, nowMs: nowMs))
    }

    private mutating func follow(last: UInt64 = 0) { _ = check(.success(log(last: last))) }

    private func reports(_ actions: [FollowMachine.Action]) -> [FollowMachine.Report] {
        actions.compactMap { if case .report(let report) = $0 { report } else { nil } }
    }

    private func results(_ actions: [FollowMachine.Action]) -> [FollowMachine.CheckResult] {
        reports(actions).compactMap { if case .checked(_, let result) = $0 { result } else { nil } }
    }

    @Test mutating func soundLog_isFollowed_behindTheNewestMessage() {
        machine.restart(created: 1, at: LogPlace(sequence: 5, id: 50))
        let actions = check(.success(log(last: 9, id: 50)))
        #expect(actions.prefix(3) == [.stopTail, .startTail(from: 6), .report(.follows(wasRefusing: false))])
        #expect(results(actions) == [.isSound])
        #expect(machine.state == .following && machine.lastKnown == 9)
        // The next check finds nothing to do.
        #expect(reports(check(.success(log(last: 9, id: 50)))).count == 1)
    }

    @Test mutating func secondCheck_whileOneIsInProgress_isNotStarted() {
        #expect(machine.receive(.connected).count == 1)
        #expect(machine.receive(.checkDue(comparesProgress: true)) == [])
        _ = machine.receive(.checked(.failure(.unreachable("x")), nowMs: 0))
        #expect(machine.receive(.checkDue(comparesProgress: true)).count == 1)
        #expect(machine.checks == 2)
    }

    @Test mutating func uncertainCheck_isRepeatedSoon_unlessTheLogIsFollowed() {
        #expect(check(.failure(.unreachable("x"))).contains(.checkLater))
        follow()
        let actions = check(.failure(.unreachable("x")))
        #expect(results(actions) == [.isUncertain] && !actions.contains(.checkLater))
    }

    @Test mutating func lostConnection_stopsTheTail_untilTheNextSoundCheck() {
        #expect(machine.receive(.disconnected) == [.report(.disconnected(wasFollowing: false))])
        follow()
        #expect(machine.receive(.disconnected) == [.stopTail, .report(.disconnected(wasFollowing: true))])
        #expect(machine.state == .opening)
        follow(last: 3)
        #expect(machine.state == .following)
    }

    @Test mutating func doubt_keepsTheTail_andFollowsAgainFromTheNewest() {
        follow()
        #expect(machine.advance(to: message(10, after: 0), at: 1).step == .next)
        machine.doubt()
        #expect(machine.state == .opening)
        #expect(machine.advance(to: message(11, after: 10), at: 2).step == .next)
        #expect(check(.success(log(last: 2))).contains(.startTail(from: 3)))
    }

    @Test mutating func consumer_thatDeliversNothing_isRestarted_afterTwoComparingChecks() {
        follow()
        _ = machine.advance(to: message(10, after: 0), at: 1)
        #expect(!check(.success(log(last: 4)), comparesProgress: true).contains(.restartTail))
        #expect(!check(.success(log(last: 4))).contains(.restartTail))
        #expect(check(.success(log(last: 4)), comparesProgress: true).contains(.restartTail))
        _ = machine.advance(to: message(11, after: 10), at: 2)
        #expect(!check(.success(log(last: 4)), comparesProgress: true).contains(.restartTail))
    }

    @Test mutating func logWithoutTheNextMessage_isReported_onlyIfDeliveriesDoNotBringIt() {
        follow()
        _ = machine.advance(to: message(10, after: 0), at: 1)
        let shortened = log(first: 5, last: 9)
        #expect(results(check(.success(shortened))) == [.isUncertain])
        #expect(machine.state == .following)
        let actions = check(.success(shortened))
        #expect(actions.first == .stopTail && results(actions) == [.isShortened(first: 5)])
        #expect(machine.state == .opening)
        // A snapshot has brought what is missing.
        machine.restart(created: 1, at: LogPlace(sequence: 6, id: 60))
        #expect(check(.success(log(first: 5, last: 9, id: 60))).contains(.startTail(from: 7)))
    }

    /// An idle log: a check that compares progress has found that nothing is new.
    @Test mutating func logWithoutTheNextMessage_isUncertainAtFirst_alsoAfterACheckOfProgress() {
        follow()
        _ = machine.advance(to: message(10, after: 0), at: 1)
        #expect(results(check(.success(log(last: 1)), comparesProgress: true)) == [.isSound])
        let shortened = log(first: 5, last: 9)
        #expect(results(check(.success(shortened), comparesProgress: true)) == [.isUncertain] && machine.state == .following)
        // A check without an answer decides nothing.
        #expect(results(check(.failure(.unreachable("x")), comparesProgress: true)) == [.isUncertain] && machine.state == .following)
        #expect(results(check(.success(shortened), comparesProgress: true)) == [.isShortened(first: 5)] && machine.state == .opening)
    }

    @Test mutating func logWithoutTheNextMessage_isFollowed_whenDeliveriesBringIt() {
        follow()
        _ = machine.advance(to: message(10, after: 0), at: 1)
        #expect(results(check(.success(log(first: 4, last: 4)))) == [.isUncertain])
        #expect(machine.advance(to: message(11, after: 10), at: 2).step == .next)
        // Not all have arrived yet.
        #expect(results(check(.success(log(first: 4, last: 4)))) == [.isUncertain])
        #expect(machine.advance(to: message(12, after: 11), at: 3).step == .next)
        #expect(results(check(.success(log(first: 4, last: 4)))) == [.isSound])
        // The next time the first check is uncertain again.
        #expect(results(check(.success(log(first: 9, last: 9)))) == [.isUncertain] && machine.state == .following)
    }

    @Test mutating func logWithoutTheNextMessage_stopsTheTail_alsoInDoubt() {
        follow()
        _ = machine.advance(to: message(10, after: 0), at: 1)
        machine.doubt()
        let actions = check(.success(log(first: 5, last: 9)))
        #expect(actions.first == .stopTail && results(actions) == [.isShortened(first: 5)] && machine.state == .opening)
    }

    @Test mutating func messageThatIsGone_stopsTheTail_andCausesACheck() {
        follow()
        let actions = machine.receive(.missing(first: 3))
        #expect(actions.prefix(2) == [.stopTail, .report(.isMissing(first: 3))] && actions.count == 3)
    }

    @Test mutating func messageThatIsGone_inDoubt_stopsTheTail_andTheNextOneReportsIt() {
        follow()
        machine.doubt()
        #expect(machine.receive(.missing(first: 3)) == [.stopTail] && machine.state == .opening)
        #expect(check(.success(log(last: 4))).contains(.startTail(from: 1)))
        #expect(reports(machine.receive(.missing(first: 3))) == [.isMissing(first: 3)])
    }

    @Test mutating func messageThatIsGone_fromARefusedLog_changesNothing() {
        follow()
        _ = machine.receive(.refuse(reason: "x"))
        let state = machine.state
        #expect(machine.receive(.missing(first: 3)) == [] && machine.state == state && machine.checks == 1)
    }

    @Test mutating func logMadeAgain_beforeItsFirstMessage_isFollowedAsTheNewOne() {
        follow()
        #expect(machine.created == 1)
        #expect(check(.success(log(created: 2, last: 0))).contains(.startTail(from: 1)))
        #expect(machine.created == 2 && machine.state == .following)
        _ = machine.advance(to: message(10, after: 0), at: 1)
        #expect(results(check(.success(log(created: 2, last: 1, id: 10)))) == [.isSound])
    }

    @Test mutating func anotherLog_isRefused_andFollowedOnceItIsTheSameAgain() {
        machine.restart(created: 1, at: LogPlace(sequence: 5, id: 50))
        follow(last: 5)
        let another = log(last: 9, id: 51)
        for _ in 1..<LogVerifier.looks { #expect(results(check(.success(another))) == [.isUncertain]) }
        let actions = check(.success(another))
        #expect(actions.first == .stopTail && results(actions) == [.isRefused])
        guard case .refusing(.regressed("L", _)) = machine.state else {
            Issue.record("\(machine.state)")
            return
        }
        // The same fault is reported once.
        #expect(reports(check(.success(another))).count == 1)
        #expect(machine.advance(to: message(60, after: 50), at: 6).step == .ignored)
        #expect(check(.success(log(last: 5, id: 50))).contains(.report(.follows(wasRefusing: true))))
    }

    @Test mutating func messages_areReceivedOnce_inOrder_eachBehindTheOneBefore() {
        follow()
        #expect(machine.advance(to: message(10, after: 0), at: 2).step == .ignored)
        #expect(machine.advance(to: message(10, after: 0), at: 1).step == .next)
        #expect(machine.advance(to: message(10, after: 0), at: 1).step == .ignored)
        #expect(machine.advance(to: nil, at: 2).step == .damaged)
        #expect(machine.newest == LogPlace(sequence: 2, id: 0))
        let (step, actions) = machine.advance(to: message(12, after: 11), at: 3)
        #expect(step == .refused && actions.first == .stopTail && machine.newest.sequence == 2)
    }

    @Test mutating func closedMachine_doesNothing() {
        follow()
        #expect(machine.receive(.close) == [.stopTail])
        for event in [.connected, .disconnected, .checkDue(comparesProgress: true), .missing(first: 3), .refuse(reason: "x"), .close]
            as [FollowMachine.Event] { #expect(machine.receive(event) == []) }
        #expect(machine.state == .closed && machine.advance(to: message(10, after: 0), at: 1).step == .ignored)
    }

    // MARK: Waiters

    @Test func waiter_isReached_whenTheMessagesOfALaterCheckHaveArrived() {
        var (waiters, reached) = (CatchUpWaiters(), 0)
        waiters.add(check: 2, untilMs: .max) { _ in }
        // A check that began before the call determines nothing.
        waiters.checked(1, last: 3)
        reached += waiters.takeReached(9).count
        #expect(reached == 0 && waiters.needCheck(after: 1) && !waiters.needCheck(after: 2))
        waiters.checked(2, last: 5)
        waiters.checked(3, last: 8)
        #expect(waiters.takeReached(4).isEmpty && waiters.takeReached(5).count == 1 && waiters.takeReached(5).isEmpty)
    }

    @Test func waiter_withoutATarget_fails_withItsCheckOrItsTime() {
        var waiters = CatchUpWaiters()
        waiters.add(check: 1, untilMs: 10) { _ in }
        waiters.add(check: 2, untilMs: 20) { _ in }
        #expect(waiters.takeUnknown(upTo: 1).count == 1 && waiters.takeUnknown(upTo: 1).isEmpty)
        #expect(waiters.takeExpired(20).isEmpty && waiters.takeExpired(21).count == 1 && waiters.takeAll().isEmpty)
    }
}
