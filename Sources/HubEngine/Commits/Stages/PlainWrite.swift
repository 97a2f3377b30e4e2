import Journal
import JSONTree
import SecurityRules

/// A commit of one small value at one place that has nothing follow: what most clients write. It needs no candidate, as only its value is
/// new, and is made in the tree of now itself, whose pages are copied only where the log, a read or an observer holds them.
///
/// ```
/// one value ─► nothing follows, no observer needs the tree before ─► permission ─► in place ─► told as it is
///                └── else: a candidate, and all stages
/// ```
/// That it is small is seen to where requests come in (`WriteRequests`).
struct PlainWrite {
    let path: Path
    let value: Node

    /// Nil where the commit is more than one value that a client asked for, as it is sent, or where the rules have more done with it.
    init?(_ writes: [TreeWrite], _ origin: WriteOrigin, _ content: Content) {
        guard writes.count == 1, case .request = origin.cause, origin.forwarded == nil, content.rules.storesPlainly, content.owed.isEmpty
        else { return nil }
        guard writes[0].part == .node, writes[0].value.deferred.isEmpty else { return nil }
        (path, value) = (writes[0].path, writes[0].value.node)
        guard value.exists, value.fits(below: path.depth) else { return nil }
    }

    /// What was at its place before.
    enum Before { case same, other }

    /// What is at its place in a tree; nil where that is much: it is not released on the queue.
    /// - Parameter compares: whether it is to be known if it is the same.
    func look(at root: Node, compares: Bool) -> Before? {
        var before: Before? = .other
        root.withCursor(at: path) { node in
            guard let node else { return }
            before = node.isLargeObject ? nil : compares && node.isEqual(to: value) ? .same : .other
        }
        return before
    }
}

extension RuleSet {
    /// Whether a value is stored as it is sent, and nothing else with it.
    var storesPlainly: Bool { !shapesWrites && !hasConsequences && !hasExpiry && !hasIndexedCopies }
}
