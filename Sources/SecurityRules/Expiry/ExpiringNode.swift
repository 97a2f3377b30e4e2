public import JSONTree

/// A node with an expiry time.
public struct ExpiringNode: Sendable, Hashable {
    public let path: Path
    /// ms since the epoch.
    public let at: Int64
    /// The rule's name, such as `/drafts/$draft.expire`.
    public let rule: String
}

extension RuleSet {
    /// The expiry times of the nodes that these writes affect; at most the first 100.
    func expiring(_ locations: [Path], old: Node, new: Node, now: Int64) -> [ExpiringNode] {
        guard hasExpiry else { return [] }
        var (found, left, seen) = ([ExpiringNode](), 10_000, Set<Path>())
        for location in locations {
            visitExpiring(location, old: old, new: new, atMost: &left) { path in
                guard found.count < 100, seen.insert(path).inserted, let at = due(at: path, in: new, written: now) else { return }
                found.append(ExpiringNode(path: path, at: at, rule: "\(nearestPlace(to: path))\(ConsequenceKind.expire.rawValue)"))
            }
        }
        return found
    }
}
