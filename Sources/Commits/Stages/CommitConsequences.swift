package import Journal
package import JSONTree
package import SecurityRules

/// Finds the consequences of a commit by the rules (counters, copies, inbox rows, removals), before it is installed. These writes of the
/// hub join the commit and must pass `.validate`, with the hub as author.
package struct CommitConsequences {
    package let rules: RuleSet
    package let origin: WriteOrigin
    package let limits: ConsequenceLimits
    /// The index of existing copies; nil while it is being built.
    package let copies: CopyIndex?
    package let watches: WatchState

    /// Why a commit is refused because of its consequences.
    package enum Refusal: Error {
        case fault(ConsequenceFault)
        /// A `.validate` refuses it.
        case invalid

        /// What the client is sent. It reveals no more of the rules than other refusals do.
        package var failure: Failure {
            guard case .fault(let fault) = self else { return .permissionDenied }
            switch fault.reason {
            case .tooManyWrites(let limit): return Failure(.tooBig, "More than \(limit) writes would follow from this one.")
            case .tooManyBytes(let limit): return Failure(.tooBig, "More than \(limit) bytes would follow from this write.")
            case .tooManyKeys(let limit):
                return Failure(.tooBig, "More than \(limit) keys would have to be looked at for what follows from this write.")
            case .tooManyProcessed(let limit):
                return Failure(.tooBig, "More than \(limit) places, counters and copies would have to be asked about for this write.")
            case .tooManyRows(let limit):
                return Failure(.tooBig, "More than \(limit) rows would be owed to inboxes, with those of writes before. Try again later.")
            case .tooManyContinuations(let limit):
                return Failure(.unavailable, "\(limit) writes before this one still have rows or removals follow. Try again later.")
            case .tooMuchWork:
                return Failure(.tooBig, "The rules would have too much text to look at for what follows from this write.")
            case .tooManyDeliveries(let limit):
                return Failure(.tooBig, "More than \(limit) notifications and events would follow from this write.")
            case .illegalKey, .tooDeep, .counterWritten, .failed, .stillDue: return .permissionDenied
            }
        }
    }

    /// Nil where nothing can follow: rules without consequences, and imports.
    package init?(
        _ rules: RuleSet, _ origin: WriteOrigin, _ limits: @autoclosure () -> ConsequenceLimits, copies: @autoclosure () -> CopyIndex?,
        watches: @autoclosure () -> WatchState
    ) {
        guard rules.hasConsequences, origin.isFollowed else { return nil }
        (self.rules, self.origin, self.limits, self.copies, self.watches) = (rules, origin, limits(), copies(), watches())
    }

    /// Finds the consequences. Pure. O(data written under rules with such keys + consequences)
    /// - Parameters:
    ///   - outermost: where the commit writes, ascending; none contains another.
    ///   - now: ms since the epoch.
    package func find(outermost: [Path], old: Node, new: Node, now: Int64) throws(Refusal) -> Consequences? {
        if outermost.isEmpty { return nil }
        do throws(ConsequenceFault) {
            return try rules.consequences(
                of: outermost, old: old, new: new, by: origin.author, now: now, limits: limits, copies: copies, watches: watches)
        } catch { throw .fault(error) }
    }

    /// Asks `.validate` about what follows.
    /// - Parameter work: that the rules may do on texts; what they did is taken off.
    package func admit(_ found: Consequences, old: Node, now: Int64, textWork work: inout Int) throws(Refusal) {
        guard rules.admits(found, old: old, now: now, textWork: &work) else { throw .invalid }
    }
}

extension Consequences {
    package var paths: [Path] { writes.map(\.path) }
    /// Whether a search has found nothing.
    package var isEmpty: Bool {
        writes.isEmpty && counted.isEmpty && changedCounters.isEmpty && continued.isEmpty && continuedRemovals == nil && !needsCounting
            && deliveries.isEmpty
            && hits.isEmpty
    }
    package var operations: [JournalOperation] { writes.map { .set($0.path, $0.value) } }
}
