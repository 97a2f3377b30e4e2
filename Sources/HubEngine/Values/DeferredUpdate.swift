import JSONTree

/// A deferred update for the observers of live queries, sent when the index of their place is ready: all changes since `content`.
struct DeferredUpdate: Sendable {
    /// The content that they have last seen.
    let content: Node
    /// The first commit that changed it.
    let sequence: UInt64
}
