public import JSONTree

/// The tree after a write of one existing value at one place, created only when the rules read above that place. Most rules read only the
/// value.
///
///     /rooms/$room/text     `newData` at text and below: the value
///     /rooms/$room          `newData` here, or above: creates the tree
///
/// Lives during one call; the caller keeps the pointees alive.
struct LazyNewTree {
    let path: UnsafePointer<Path>
    let value: UnsafePointer<Node>
    /// The tree before the write, until `make` applies the write to it.
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
    /// Decides like `allowsWrite` about one value at one place, without creating the new tree unless the rules read above that place.
    /// Without it, comparing `data` with `newData` may take more text work, as an equal value is not the identical node.
    /// - Parameters:
    ///   - value: the written value, with server values resolved; it exists.
    ///   - old: the tree before the write.
    ///   - made: set to the tree after the write if the decision created it.
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
                            evaluator.begin(LazyNewTree(path: path, value: value, tree: tree, isMade: isMade))
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
