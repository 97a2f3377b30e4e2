package import JSONTree
package import SecurityRules

/// The fourth stage of a commit: evaluates the rules, with the current tree as `data` and the candidate as `newData` (contract §8).
package struct WritePermission {
    package let rules: RuleSet
    package let origin: WriteOrigin

    package init(rules: RuleSet, origin: WriteOrigin) {
        self.rules = rules
        self.origin = origin
    }

    /// Whether the rules permit the commit. Writes of administrators and of the hub itself are exempt, except that expiry, inbox rows and
    /// continued removals must pass `.validate`.
    /// - Parameter work: remaining text work of the rules; reduced by the work done.
    package func allows(_ candidate: Candidate, textWork work: inout Int) -> Bool {
        work -= candidate.textWork
        if origin.mustBeValid {
            return rules.isValidSystemWrite(candidate.paths, old: candidate.base, new: candidate.tree, now: candidate.now)
        }
        guard origin.isRuled else { return true }
        // The limit of one operation includes the work of its defaults.
        let most = min(work, rules.textWork - candidate.textWork)
        var left = most
        defer { work -= most - left }
        return rules.allowsWrite(
            candidate.asked, validating: candidate.added, old: candidate.base, new: candidate.tree, auth: origin.identity.auth,
            now: candidate.now, textWork: &left)
    }

    /// Like `allows`, and records the dependencies of the decision. Nil for administrators and the hub.
    /// - Parameter limit: recorded paths at most; beyond it the decision depends on everything.
    package func decide(_ candidate: Candidate, keeping limit: Int) -> WriteDecision? {
        guard origin.isRuled else { return nil }
        return rules.decideWrite(
            candidate.asked, validating: candidate.added, old: candidate.base, new: candidate.tree, auth: origin.identity.auth,
            now: candidate.now, keeping: limit)
    }

    /// The decision as a `RuleQuestion`, from which it can be explained.
    package func question(_ candidate: Candidate) -> RuleQuestion {
        var question = RuleQuestion(
            operation: .write(candidate.asked), added: candidate.added, rules: rules, old: candidate.base, new: candidate.tree,
            auth: origin.identity.auth, now: candidate.now)
        question.isOfHub = origin.mustBeValid
        return question
    }

    /// The first write that the rules refuse whatever the data. Reads no tree. O(writes · depth)
    package func firstImpossible(_ writes: [TreeWrite], now: Int64) -> TreeWrite? {
        guard origin.isRuled else { return nil }
        var asked = 0
        let locations = writes.lazy.map { write in
            asked += 1
            return write.path
        }
        if rules.mayAllowWrite(locations, auth: origin.identity.auth, now: now) || asked == 0 { return nil }
        return writes[asked - 1]
    }

    /// The refusal of one write without defaults, as a question that can be explained.
    package func question(_ write: TreeWrite, on base: Node, now: Int64) -> RuleQuestion {
        let tree = (try? Candidate([write], on: base, now: now).tree) ?? base
        return RuleQuestion(operation: .write([write.path]), rules: rules, old: base, new: tree, auth: origin.identity.auth, now: now)
    }
}
