import Journal
package import JSONTree
package import SecurityRules

/// A commit of one small value at one path, without consequences: what most clients write. It needs no candidate and is applied to the
/// current tree in place. Pages are copied only where the log, a read or an observer holds them.
///
/// ```
/// one value ─► no consequences, no observer needs the old tree ─► permission ─► in place ─► sent unchanged
///                 └── else: a candidate, and all stages
/// ```
/// `WriteRequests` makes sure that the value is small.
package struct PlainWrite {
    package let path: Path
    package let value: Node

    /// Nil unless the commit is a single value requested by a client, and the rules store it unchanged and cause nothing else.
    package init?(_ writes: [TreeWrite], _ origin: WriteOrigin, _ rules: RuleSet, hasPendingRows: Bool) {
        guard writes.count == 1, case .request = origin.cause, origin.forwarded == nil, rules.storesPlainly, !hasPendingRows
        else { return nil }
        guard writes[0].part == .node, writes[0].value.deferred.isEmpty else { return nil }
        (path, value) = (writes[0].path, writes[0].value.node)
        guard value.exists, value.fits(below: path.depth) else { return nil }
    }

    /// How the value before compares with the new one.
    package enum Before { case same, other }

    /// The value at its path in a tree. Nil if that is large: it must not be released on the queue.
    /// - Parameter compares: false to skip the comparison and return `.other`.
    package func compare(with root: Node, compares: Bool) -> Before? {
        var before: Before? = .other
        root.withCursor(at: path) { node in
            guard let node else { return }
            before = node.isLargeObject ? nil : compares && node.isEqual(to: value) ? .same : .other
        }
        return before
    }
}

extension RuleSet {
    /// Whether the rules store a value as it was sent, and nothing else with it.
    var storesPlainly: Bool { !shapesWrites && !hasConsequences && !hasExpiry && !hasIndexedCopies }
}
