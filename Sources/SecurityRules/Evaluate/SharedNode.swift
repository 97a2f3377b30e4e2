import JSONTree

/// The cached node of a shared path: valid for the node above and the key it was looked up with.
struct SharedNode {
    var parent: NodeCursor?
    var key: UnsafePointer<Key>?
    var node: NodeCursor?
}
