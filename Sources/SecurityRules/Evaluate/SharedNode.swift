import JSONTree

/// Where a shared path led when it was last walked: valid for the node above and the key it was walked from.
struct SharedNode {
    var parent: NodeCursor?
    var key: UnsafePointer<Key>?
    var node: NodeCursor?
}
