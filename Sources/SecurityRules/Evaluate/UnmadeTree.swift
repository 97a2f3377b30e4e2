public import JSONTree

/// The tree after a write of one value, which exists, at one place: the tree before, until the rules look above the place. Most look at the
/// value alone.
///
///     /rooms/$room/text     `newData` at text and below: the value
///     /rooms/$room          `newData` here, or above: the tree is made
///
/// Lives during one call; its owner holds what it points at.
struct UnmadeTree {
    let path: UnsafePointer<Path>
    let value: UnsafePointer<Node>
    /// The tree before, until `make` writes the value there.
    let tree: UnsafeMutablePointer<Node>
    /// Set by `make`.
    let isMade: UnsafeMutablePointer<Bool>

    var depth: Int { path.pointee.depth }

    func make() -> NodeCursor {
        tree.pointee.set(value.pointee, at: path.pointee)
        isMade.pointee = true
        return NodeCursor(UnsafePointer(tree))
    }
}

extension RuleSet {
    /// Decides as `allowsWrite` about one value at one place, without the tree after it where the rules do not look above the place. Then a
    /// comparison of `data` with `newData` may take more text work, as an equal value is not the same one.
    /// - Parameters:
    ///   - value: what is written, server values resolved; it exists.
    ///   - old: the tree before.
    ///   - made: set to the tree after it where that had to be made.
    ///   - work: the budget of text work; the work done is subtracted.
    public func allowsWrite(
        _ value: Node, at path: Path, on old: Node, auth: Node, now: Int64, making made: inout Node?, textWork work: inout Int
    ) -> Bool {
        var (tree, isMade) = (old, false)
        let most = min(work, program.textWork)
        let isAllowed = withUnsafePointer(to: path) { path in
            withUnsafePointer(to: value) { value in
                withUnsafeMutablePointer(to: &tree) { tree in
                    withUnsafeMutablePointer(to: &isMade) { isMade in
                        Evaluator.run(program, old: old, new: .null, auth: auth, now: now, query: nil) { evaluator in
                            evaluator.begin(UnmadeTree(path: path, value: value, tree: tree, isMade: isMade))
                            evaluator.textWork = most
                            defer { work -= most - evaluator.textWork }
                            return evaluator.allowsWrite(CollectionOfOne(path.pointee))
                        }
                    }
                }
            }
        }
        if isMade { made = tree }
        return isAllowed
    }
}
