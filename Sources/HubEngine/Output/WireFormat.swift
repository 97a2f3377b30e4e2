public import JSONTree

/// Encodes the engine's messages for the wire. Pure functions, called from several threads.
/// An empty result means that there is nothing to send.
public protocol WireFormat: Sendable {
    func reply(_ reply: Reply, to token: Int64, dialect: Dialect) -> [UInt8]
    /// As `reply(.value(node), …)` to a realtime client of the node that lies here, without a copy of it.
    func value(_ node: NodeCursor, to token: Int64) -> [UInt8]
    /// The first content of a new observer.
    /// - Parameter query: what selected it; nil for the whole place.
    func initial(_ value: Node, at path: Path, query: ChildQuery?, style: ObserverStyle, sequence: UInt64) -> [UInt8]
    /// The first content of an observer who is told nothing of it but how many children there are.
    func initial(count: Int, style: ObserverStyle, sequence: UInt64) -> [UInt8]
    /// All that an observer that has come back had missed has been told.
    func ready(_ style: ObserverStyle, sequence: UInt64) -> [UInt8]
    /// The change of one commit, for its observers of one style.
    /// - Parameter parts: nil for the first style; what is kept there for the next ones of the same change is encoded once.
    func change(_ change: ViewChange, for style: ObserverStyle, sharing parts: inout (any ChangeParts)?) -> [UInt8]
    /// The same of one write, for observers of whole places that are told the writes themselves (`.patches(tag: nil)`).
    func written(_ value: Node, at path: Path) -> [UInt8]
    /// The observer ends: mostly because it is no longer permitted, which is all that some styles can say.
    func ended(_ path: Path, query: ChildQuery?, style: ObserverStyle, _ failure: Failure) -> [UInt8]
}

extension WireFormat {
    public func value(_ node: NodeCursor, to token: Int64) -> [UInt8] { reply(.value(node.node), to: token, dialect: .realtime) }
    /// Formats that write it down as any other change.
    public func written(_ value: Node, at path: Path) -> [UInt8] {
        var parts: (any ChangeParts)?
        let change = ViewChange(path: path, sequence: 0, new: .null, patches: [(path, value)], events: [])
        return self.change(change, for: .patches(tag: nil), sharing: &parts)
    }
    /// Formats that know no counts.
    public func ready(_ style: ObserverStyle, sequence: UInt64) -> [UInt8] { [] }
    public func initial(count: Int, style: ObserverStyle, sequence: UInt64) -> [UInt8] { [] }
}

/// What the messages about one change have in common for several styles, as its format keeps it. Used on one queue at a time.
public protocol ChangeParts: AnyObject {}
