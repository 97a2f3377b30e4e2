public import DispatchNet
public import WireProtocols

/// Connection settings of a client.
public struct HubClientSettings: Sendable {
    /// Whether to reconnect. If false, the first failure closes the client, and open requests and observers fail with it.
    public var reconnects = true
    /// Delay before the first attempt to reconnect, in ms; doubles up to `lastRetryMs`. The actual delay is 50–100 % of it.
    public var firstRetryMs = 250
    /// Longest delay between attempts, in ms.
    public var lastRetryMs = 15_000
    /// Time without a byte from the hub after which the connection is closed; the hub is pinged at each third of it.
    public var silenceSeconds = 60
    /// Longest message accepted from the hub, in bytes.
    public var messageBytes = 256 << 20
    /// The trusted authorities of an `https` hub's certificate; nil for the system's.
    public var tls: TLSClient?
    /// Settings of permessage-deflate (RFC 7692); nil does not offer it.
    public var deflate: DeflateSettings? = DeflateSettings()

    public init() {}
}
