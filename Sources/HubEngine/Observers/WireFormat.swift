public import JSONTree
public import LiveQueries

/// Encodes the engine's messages for the wire. Pure functions, called from several threads. An empty result sends nothing.
public protocol WireFormat: Sendable {
    func reply(_ reply: Reply, to token: Int64, dialect: Dialect) -> [UInt8]
    /// Equals `reply(.value(node), …)` for a realtime client, without copying the node.
    func value(_ node: NodeCursor, to token: Int64) -> [UInt8]
    /// The initial value of a new observer.
    /// - Parameter query: the query that selected it; nil for the whole place.
    func initial(_ value: Node, at path: Path, query: Query?, style: ObserverStyle, sequence: UInt64) -> [UInt8]
    /// The initial count of a new observer that receives only the number of children.
    func initial(count: Int, style: ObserverStyle, sequence: UInt64) -> [UInt8]
    /// Ends the replay of missed changes to a resumed observer.
    func ready(_ style: ObserverStyle, sequence: UInt64) -> [UInt8]
    /// The change of one commit, for the observers of one style.
    /// - Parameter parts: nil for the first style. The format stores there what further styles of the same change can reuse.
    func change(_ change: ViewChange, for style: ObserverStyle, sharing parts: inout (any ChangeParts)?) -> [UInt8]
    /// The same for one write, for observers of whole places that receive the writes themselves (`.patches(tag: nil)`).
    func written(_ value: Node, at path: Path) -> [UInt8]
    /// The observer has ended. Usually it is no longer allowed; some styles cannot express another reason.
    func ended(_ path: Path, query: Query?, style: ObserverStyle, _ failure: Failure) -> [UInt8]
}

extension WireFormat {
    public func value(_ node: NodeCursor, to token: Int64) -> [UInt8] { reply(.value(node.node), to: token, dialect: .realtime) }
    /// Encodes the write as a general change. Formats may override this.
    public func written(_ value: Node, at path: Path) -> [UInt8] {
        var parts: (any ChangeParts)?
        let change = ViewChange(at: path, sequence: 0, patches: [(path, value)])
        return self.change(change, for: .patches(tag: nil), sharing: &parts)
    }
    /// Defaults for formats without counts.
    public func ready(_ style: ObserverStyle, sequence: UInt64) -> [UInt8] { [] }
    public func initial(count: Int, style: ObserverStyle, sequence: UInt64) -> [UInt8] { [] }
}

/// Encoded parts of one change that several styles share, as its format stores them. Used on one queue at a time.
public protocol ChangeParts: AnyObject {}
