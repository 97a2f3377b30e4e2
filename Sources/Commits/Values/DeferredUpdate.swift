package import JSONTree

/// A deferred update for the observers of live queries, sent when the index of their place is ready: all changes since `content`.
package struct DeferredUpdate: Sendable {
    /// The content that they have last seen.
    package let content: Node
    /// The first commit that changed it.
    package let sequence: UInt64

    package init(content: Node, sequence: UInt64) {
        self.content = content
        self.sequence = sequence
    }
}
