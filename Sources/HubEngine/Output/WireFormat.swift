public import JSONTree

/// Encodes the engine's messages for the wire. Pure functions, called from several threads.
/// An empty result means that there is nothing to send.
public protocol WireFormat: Sendable {
    func reply(_ reply: Reply, to token: Int64, dialect: Dialect) -> [UInt8]
    /// The first content of a new observer.
    func initial(_ value: Node, at path: Path, style: ObserverStyle, sequence: UInt64) -> [UInt8]
    /// The changes of one commit, for every style of its observers. Parts that styles share are encoded once.
    func change(_ change: ViewChange) -> (ObserverStyle) -> [UInt8]
    /// The observer ends because it is no longer permitted.
    func cancelled(_ path: Path, query: TreeQuery?, style: ObserverStyle) -> [UInt8]
}
