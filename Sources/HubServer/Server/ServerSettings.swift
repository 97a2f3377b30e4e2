public import DispatchNet
public import HubEngine
public import Journal
public import SecurityRules
public import WireProtocols

/// How a server runs. Every field is an option of `vigla serve`.
public struct ServerSettings: Sendable {
    public var host = "127.0.0.1"
    /// 0 lets the system choose; see `Server.port`.
    public var port: UInt16 = 9000
    /// The namespace of clients that name none.
    public var namespace = "default"
    /// Rules of every namespace.
    public var rules = RuleSet.denyAll
    /// Folder of the durable store; nil keeps everything in memory only.
    public var dataFolder: String?
    public var durability = Durability.full
    /// Folder of the console page's files; nil serves none.
    public var webFolder: String?
    /// Number of net loops; 0 takes one per core.
    public var loops = 0
    /// Development conveniences: unsigned tokens, the `owner` credential, namespaces made on demand.
    public var isDev = false
    public var limits = ServerLimits()

    public init() {}
}

/// Every limit of a server with its unit and default. Each is met by a test from both sides.
public struct ServerLimits: Sendable {
    public var http = HTTPLimits()
    public var engine = EngineLimits()
    public var net = NetSettings()
    /// Bytes of one WebSocket message, and so of any frame; more closes the connection with 1009. Default 32 MiB.
    public var frameBytes = 32 << 20
    /// Bytes of a realtime message over all its chunks, and of an observe request; more is answered with `too_big`.
    /// Default 16 MiB (contract §4.1). Strings: 10 MiB.
    public var realtime = RealtimeLimits()
    /// Long polling: how long polls are held, when a client counts as gone, what may wait.
    public var longPoll = LongPollLimits()
    /// Seconds without any byte from a WebSocket peer before it is asked for a sign of life. Default 25.
    public var pingAfterSeconds = 25
    /// Seconds without any byte from a WebSocket peer before its session ends. Default 75 (contract §1.5).
    public var silenceSeconds = 75
    /// Seconds that a plain HTTP connection may take for a request, or wait for the next one. Default 30.
    public var requestSeconds = 30

    public init() {
        // A body that is read has somewhere to go only below `/.console` and the sockets, so none is large yet.
        http.bodyBytes = 1 << 20
    }
}
