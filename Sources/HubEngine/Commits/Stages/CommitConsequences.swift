import Journal
import JSONTree
import SecurityRules

/// What the rules have follow from a commit: the stage before it is installed. The hub's own writes join the commit and are asked
/// `.validate` about, as the hub.
struct CommitConsequences {
    let rules: RuleSet
    let origin: WriteOrigin
    let limits: ConsequenceLimits
    /// Of the copies that there are; nil while it is being built.
    let copies: CopyIndex?

    /// Why a commit is refused for what would follow.
    enum Refusal: Error {
        case fault(ConsequenceFault)
        /// A `.validate` refuses it.
        case invalid

        /// What a client is told: of the rules' sentences no more than of other refusals.
        var failure: Failure {
            guard case .fault(let fault) = self else { return .permissionDenied }
            switch fault.reason {
            case .tooManyWrites(let limit): return Failure(.tooBig, "More than \(limit) writes would follow from this one.")
            case .tooManyBytes(let limit): return Failure(.tooBig, "More than \(limit) bytes would follow from this write.")
            case .tooManyKeys(let limit):
                return Failure(.tooBig, "More than \(limit) keys would have to be looked at for what follows from this write.")
            case .tooManyAsked(let limit):
                return Failure(.tooBig, "More than \(limit) places, counters and copies would have to be asked about for this write.")
            case .tooManyRows(let limit):
                return Failure(.tooBig, "More than \(limit) rows would be owed to inboxes, with those of writes before. Try again later.")
            case .tooManyContinuations(let limit):
                return Failure(.unavailable, "\(limit) writes before this one still have rows or removals follow. Try again later.")
            case .tooMuchWork:
                return Failure(.tooBig, "The rules would have too much text to look at for what follows from this write.")
            case .illegalKey, .tooDeep, .counterWritten, .failed, .stillDue: return .permissionDenied
            }
        }
    }

    /// Nil where nothing can follow: the usual rules, and imports.
    init?(_ rules: RuleSet, _ origin: WriteOrigin, _ limits: @autoclosure () -> ConsequenceLimits, copies: @autoclosure () -> CopyIndex?) {
        guard rules.hasConsequences, origin.isFollowed else { return nil }
        (self.rules, self.origin, self.limits, self.copies) = (rules, origin, limits(), copies())
    }

    /// Finds what follows. Pure. O(what was written where rules with such keys are, and what follows)
    /// - Parameters:
    ///   - paths: where the commit writes.
    ///   - now: ms since the epoch.
    ///   - work: that the rules may do on texts; what they did is taken off.
    /// - Returns: nil when nothing does.
    func find(_ paths: [Path], old: Node, new: Node, now: Int64, textWork work: inout Int) throws(Refusal) -> Consequences? {
        // A place and its priority may be written beside places below it.
        try find(outermost: paths.count > 1 ? paths.outermost : paths, old: old, new: new, now: now, textWork: &work)
    }

    /// - Parameter outermost: ascending; none contains another.
    func find(outermost: [Path], old: Node, new: Node, now: Int64, textWork work: inout Int) throws(Refusal) -> Consequences? {
        if outermost.isEmpty { return nil }
        let found: Consequences
        do throws(ConsequenceFault) {
            found = try rules.consequences(of: outermost, old: old, new: new, by: origin.author, now: now, limits: limits, copies: copies)
        } catch { throw .fault(error) }
        let isContinued = !found.continued.isEmpty || found.continuedRemovals != nil
        guard !found.writes.isEmpty || !found.counted.isEmpty || isContinued || found.needsCounting else { return nil }
        guard rules.admits(found, old: old, now: now, textWork: &work) else { throw .invalid }
        return found
    }
}

extension Consequences {
    var paths: [Path] { writes.map(\.path) }
    var operations: [JournalOperation] { writes.map { .set($0.path, $0.value) } }
}
