import Journal
import Logging
import Synchronization

/// What a shared log does when it is followed, refused or ended. After an append without an answer it is also closed for appends until a check.
extension SharedStream: LogFollowerOwner {
    func followerDid(_ report: FollowMachine.Report) {
        switch report {
        case .disconnected(let wasFollowing):
            follower.failWaiters()
            if wasFollowing { shut(.unavailable(reason: "not connected to the cluster")) }
        case .follows: logger.debug("following the cluster's log", metadata: ["from": "\(follower.newest.sequence)"])
        case .isMissing(let first): refuse(beginningWith: first)
        case .refuses(let error, _):
            shut(error)
            follower.failWaiters()
        case .checked(let check, let result): checked(check.number, result)
        }
    }

    private func checked(_ number: Int, _ result: FollowMachine.CheckResult) {
        switch result {
        case .isUncertain:
            // An open gate stays open: the servers refuse an append if messages are missing here.
            follower.failWaiters(upTo: number)
            // A log that is not followed is checked again anyway.
            if follower.state == .following, gate.withLock({ $0.fault }) != nil { follower.checkLater() }
        case .isShortened(let first):
            refuse(beginningWith: first)
            follower.failWaiters(upTo: number)
        case .isRefused: follower.failWaiters(upTo: number)
        case .isSound:
            gate.withLock { $0 = Gate(fault: nil, created: follower.created) }
            follower.reached(follower.newest.sequence)
        }
    }

    /// Refuses a log whose next message is gone: nothing shortens these logs.
    private func refuse(beginningWith first: UInt64) { follower.refuse("it begins with message \(first), and what came before is gone") }

    /// Stops appends until the log was checked. From any thread.
    func doubt(_ fault: JournalError) {
        shut(fault)
        hop { $0.follower.check() }
    }

    private func shut(_ fault: JournalError) { gate.withLock { $0.fault = fault } }

    func sweep() { follower.expireWaiters() }

    func end() {
        follower.close()
        shut(.closed)
        follower.failAllWaiters()
    }
}
