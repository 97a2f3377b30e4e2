public import JSONTree

/// Decisions before there is any data: what no data could make the rules allow is refused without a look at what is stored or
/// what was sent.
extension RuleSet {
    /// Whether some data could make the rules allow a write. False means that `allowsWrite` is false for the same locations,
    /// `auth`, `now` and `query`, whatever both trees hold; true promises nothing. `.validate` rules are not asked.
    ///
    /// Looks at no tree and allocates nothing on the usual path. O(depth + expressions on the chain) for one location; what it
    /// shares with the one before costs nothing again, and nothing is asked after the first that is refused. No location is
    /// allowed.
    /// - Parameters:
    ///   - locations: as for `allowsWrite`; taken one by one, so that they may be made as they are asked for.
    ///   - auth: `.null` when signed out, else an object of `uid`, `provider` and `token`.
    ///   - now: ms since the epoch.
    public func mayAllowWrite(_ locations: some Sequence<Path>, auth: Node, now: Int64, query: QueryVariables = .none) -> Bool {
        Evaluator.run(program, old: .null, new: .null, auth: auth, now: now, query: query) { $0.mayAllowWrite(locations) }
    }
}
