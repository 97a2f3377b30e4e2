import JSONTree

extension RuleSet {
    /// The tree with all rows made that commits owe, for small trees: one at a time. A row that a `.validate` or a bound refuses is left
    /// out, as a hub does.
    func continuing(_ owed: [ContinuedRows], in tree: Node, now: Int64) -> Node {
        var (tree, owed) = (tree, owed[...])
        while let rows = owed.popFirst() {
            for key in reached(by: rows, in: tree) ?? [] {
                var after = tree
                after.set(rows.value, at: rows.place(of: key))
                let path = rows.place(of: key)
                var work = textWork
                guard after.node(at: path) != tree.node(at: path), isValidSystemWrite([path], old: tree, new: after, now: now),
                    let found = try? consequences(of: [path], old: tree, new: after, by: .administrator, now: now),
                    admits(found, old: tree, now: now, textWork: &work)
                else { continue }
                tree = found.tree
                owed += found.continued.map(\.rows)
            }
        }
        return tree
    }
}
