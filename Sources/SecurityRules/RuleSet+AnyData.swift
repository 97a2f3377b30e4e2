public import JSONTree

/// Decisions without data: a request that the rules allow for no data is refused without reading stored or sent data.
extension RuleSet {
    /// Whether some data could make the rules allow a write. False means that `allowsWrite` is false for the same locations,
    /// `auth`, `now` and `query` with any two trees; true guarantees nothing. `.validate` rules are not evaluated.
    ///
    /// Reads no tree and usually allocates nothing. O(depth + expressions on the chain) for one location. The part shared with the previous
    /// location costs nothing again, and evaluation stops at the first refused location. An empty list is allowed.
    /// - Parameters:
    ///   - locations: as for `allowsWrite`; iterated once, so a lazy sequence works.
    ///   - auth: `.null` when signed out, else an object of `uid`, `provider` and `token`.
    ///   - now: ms since the epoch.
    public func mayAllowWrite(_ locations: some Sequence<Path>, auth: Node, now: Int64, query: QueryVariables? = nil) -> Bool {
        Evaluator.run(program, old: .null, new: .null, auth: auth, now: now, query: query) { $0.mayAllowWrite(locations) }
    }
}
