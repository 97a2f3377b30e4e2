public import DispatchNet
public import WireProtocols

/// How a client treats its connection.
public struct HubClientSettings: Sendable {
    /// Off: the first failure closes the client, and everything open is told the reason.
    public var reconnects = true
    /// Delay before the first new attempt after a loss, in ms; doubles up to `lastRetryMs`. The real one is 50–100 % of it.
    public var firstRetryMs = 250
    /// Longest delay between attempts, in ms.
    public var lastRetryMs = 15_000
    /// Without a byte from the hub for this long the connection is given up; the hub is pinged at each third of it.
    public var silenceSeconds = 60
    /// Longest message taken from the hub, in bytes.
    public var messageBytes = 256 << 20
    /// Whom an `https` hub's certificate must come from; nil: the system's authorities.
    public var tls: TLSClient?
    /// How to compress when the hub agrees (RFC 7692); nil does not offer it.
    public var deflate: DeflateSettings? = DeflateSettings()

    public init() {}
}
