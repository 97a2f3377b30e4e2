/// The wire protocol of a client.
public enum Dialect: Sendable {
    /// Realtime protocol v5, spoken by the stock SDKs.
    case realtime
    /// Vigla's own observe protocol.
    case observe
    /// REST: answers are passed as values (`Client.replied`) and encoded by the receiver, so that large answers take no time on the
    /// database queue. Only the events of a stream are bytes.
    case rest
    /// Writes of the hub itself; answers are passed as values, too.
    case system

    /// Whether answers are passed as values.
    public var hasReplies: Bool { self == .rest || self == .system }
}
