package import Journal

/// Names a forwarded request until its commit. A class, so that nil, as in most commits, costs one word.
package final class RemoteMark: Sendable {
    package let mark: PeerMark
    /// Sequence of the commit by which the client's hub joined.
    package let joined: UInt64

    package init(_ mark: PeerMark, joined: UInt64) { (self.mark, self.joined) = (mark, joined) }
}

extension Failure {
    package static let hubGone = Failure(.unavailable, "The hub that asked was not heard of any more. Nothing of this was stored.")
}
