package import JSONTree

/// The first stage of a commit: resolves server values (`{".sv": "timestamp"}`, an increment; contract §4.3).
package enum ServerValues {
    /// The value of a write with its server values resolved. O(number of server values)
    /// - Parameters:
    ///   - tree: with the earlier writes of the same commit applied.
    ///   - now: ms since the epoch.
    package static func resolve(_ write: TreeWrite, in tree: Node, now: Int64) -> Node {
        if write.value.deferred.isEmpty { return write.value.node }
        let current = tree.node(at: write.path)
        return write.value.resolved(current: write.part == .node ? current : current.priority, now: now)
    }
}
