public import Accounts
package import DispatchNet
package import HubEngine
public import Outbound
public import SecurityRules
package import WireProtocols

/// How a server runs. Every field is an option of `vigla serve`.
public struct ServerSettings: Sendable {
    public var host = "127.0.0.1"
    /// 0 lets the system choose; see `Server.port`.
    public var port: UInt16 = 9000
    /// Nil serves without TLS.
    public var tls: ServerTLS?
    /// The databases that the configuration names; never empty. The first is the default: that of clients that name none.
    public var databases = [DatabaseSettings("default")]
    /// Folder of the accounts and of the storage's own files; nil keeps accounts in memory only.
    public var dataFolder: String?
    /// Folder of the console page's files; nil serves none.
    public var webFolder: String?
    /// Number of net loops, which share connections evenly. 0 creates one per core and fills them one after the other
    /// (``ServerLimits/connectionsPerLoop``).
    public var loops = 0
    /// Development conveniences: unsigned tokens, the `owner` credential, namespaces made on demand.
    public var isDev = false
    /// Verifies signed tokens. Nil leaves that to the accounts; without accounts signed tokens count as anonymous.
    public var tokens: (any TokenVerifier)?
    /// Accounts; nil serves none.
    public var accounts: AccountSettings?
    /// Where notifications and events may be sent, other than to mail addresses; mails use the mail server of `accounts`.
    public var outbound = OutboundConfiguration()
    /// Proxies that may name the client's address in `X-Forwarded-For`. Default: none.
    public var trustedProxies = TrustedProxies()
    /// Places of the default database that are removed with an account, in addition to the rules' `.account`.
    public var accountData: [AccountPlace] = []
    public var limits = ServerLimits()
    /// Web pages that may open a socket or a long poll, as origins (`https://app.example`), `*` for all. Nil: in development only pages of
    /// this machine (see `OriginPolicy`); otherwise all pages, as requests need a token.
    public var allowedOrigins: [String]?
    /// Whether each HTTP request is logged from the start; `Server.toggleRequestLog` changes it.
    public var logsRequests = false
    /// The program's version, for metrics.
    public var version = ""
    /// Clients that may read `/.metrics`.
    public var metrics = MetricsAccess.loopback
    /// Whether bytes sent are also counted by user, for administrators at `/.metrics?by=user`.
    public var countsUserBytes = false
    /// The last lines of the log, shown to administrators at `/.inspect/log.json`; nil shows none.
    public var recentLog: RecentLog?

    public init() {}

    /// The name of the default database.
    public var namespace: String {
        get { databases[0].name }
        set { databases[0].name = newValue }
    }

    /// The rules of the default database until others are deployed.
    public var rules: RuleSet {
        get { databases[0].rules }
        set { databases[0].rules = newValue }
    }

    /// The rules file of the default database.
    public var rulesFile: String? {
        get { databases[0].rulesFile }
        set { databases[0].rulesFile = newValue }
    }

    /// The hub's origin for programs on this machine, with the port that it listens on.
    public func origin(port: UInt16) -> String {
        let name = ["0.0.0.0", "::"].contains(host) ? "localhost" : host.contains(":") ? "[\(host)]" : host
        let isSecure = tls.map { $0.port == nil } ?? false
        return "\(isSecure ? "https" : "http")://\(name):\(port)"
    }
}

/// Clients that may read `/.metrics`.
public enum MetricsAccess: String, Sendable, CaseIterable {
    /// Programs on this machine that connect directly, not through a proxy; and administrators, with their secret.
    case loopback
    /// All programs that can reach the port.
    case all
    /// No program.
    case off
}

/// Every limit of a server with its unit and default. Tests cover each from both sides.
public struct ServerLimits: Sendable {
    package var http = HTTPLimits()
    package var engine = EngineLimits()
    /// Transport. `outboundTotalBytes` and `connectionsPerLoop` are set from the properties below.
    package var net = NetSettings()
    /// Output bytes that may wait for all slow readers together, at least 64 MiB; 0 for half of `memoryBytes`. Default 0.
    package var outboundBytes = 0
    /// Connections that a net loop takes before the next loop gets any, when the server chooses the number of loops; 0 spreads them evenly.
    /// Default 1,000: a broadcast to that many takes a loop one or a few milliseconds.
    package var connectionsPerLoop = 1_000
    /// Users without a connection whose sent bytes are remembered, with `countsUserBytes`: those with the most bytes. Default 1,000, at
    /// some 150 bytes each, the same as for connected users. Up to twice as many may accumulate before the next clean-up.
    package var countedUsers = 1_000
    /// Connections: their number, their rate, and the share of one address.
    package var admission = AdmissionLimits()
    /// Bytes of one session's unanswered requests; above it reading from the peer stops until half of them are answered.
    /// Default 1 MiB; a single larger request passes.
    package var requestBytes = 1 << 20
    /// Bytes added to each request in `requestBytes`. Even a small request costs a turn on the database queue, so a session has at most
    /// some 500 of them pending. Default 2 KiB.
    package var requestOverheadBytes = 2 << 10
    /// Bytes of one WebSocket message, and so of any frame; a longer one closes the connection with 1009. Default 32 MiB.
    package var frameBytes = 32 << 20
    /// Compression of `/.observe` for clients that offer it (RFC 7692); nil declines every offer. Messages never refer to earlier
    /// ones there, so `takesOverContext` has no effect. Defaults: see `DeflateSettings`.
    package var deflate: DeflateSettings? = DeflateSettings()
    /// Bytes of a realtime message over all its chunks, and of an observe request; a longer one is answered with `too_big`.
    /// Default 16 MiB (contract §4.1). Strings: 10 MiB.
    package var realtime = RealtimeLimits()
    /// Long polling: how long polls are held, when a client counts as lost, and how much may be queued.
    package var longPoll = LongPollLimits()
    /// The longest time in ms from a stop until the storage closes, even with work pending. Connections may take half of it to close. Default 6,000.
    package var stopMs = 6_000
    /// Concurrent account requests; further ones are answered with 503. Default 1,000.
    package var accountRequests = 1_000
    /// The same for one network: an IPv4 address, or the first 64 bits of an IPv6 address. Default 64; not with `isDev`.
    public var accountRequestsOfNetwork = 64
    /// Seconds that a session stays open after its credential has expired. Default 10 (contract §8.1).
    package var tokenLeewaySeconds = 10
    /// Requests of one client that may wait while its credential is verified. Default 1,000.
    package var requestsBehindAuth = 1_000
    /// Consecutive credentials of one connection that may be refused; the last one closes it with 1008. Default 10.
    package var refusedCredentials = 10
    /// Signed tokens verified at the same time, off the net loops; 0 for one per two processors. Default 0.
    package var tokenChecks = 0
    /// Bytes of tokens that may wait to be verified, plus 512 for each; one address may have a quarter of them. Further ones are answered
    /// with `unavailable`, over REST 503. Default 32 MiB: some 20,000 tokens of usual size.
    package var tokenCheckBytes = 32 << 20
    /// Refused tokens allowed for one address (an IPv4 address, or an IPv6 network of 64 bits), at once or in each minute. Above it, new
    /// tokens are answered with `unavailable`, over REST 503, without verification until the limit refills; tokens that were verified
    /// before still pass. This machine's own addresses are not counted, unless `AdmissionLimits.countsLoopback` is set. Default 1,000.
    package var refusedTokensPerMinute = 1_000
    /// Bytes of a REST response body, without escapes; a larger one is refused with 400. Default 256 MiB (contract §4.1).
    package var restReadBytes = 256 << 20
    /// Seconds between keep-alive events on an event stream. Default 30 (contract §7.6).
    package var streamKeepAliveSeconds = 30
    /// Seconds without any byte from a WebSocket peer before it gets a ping. Default 25.
    package var pingAfterSeconds = 25
    /// Seconds without any byte from a WebSocket peer before its session ends. Default 60 (contract §1.5).
    package var silenceSeconds = 60
    /// Seconds that a plain HTTP connection may take for a request, or wait for the next one. Default 30.
    package var requestSeconds = 30
    /// Refusals by the rules that are logged with their reasons, in one second; 0 logs none. Default 0.
    public var loggedRefusals = 0
    /// Refusals by the rules that are kept for administrators, the latest ones, without values; 0 keeps none. Default 100.
    package var keptRefusals = 100
    /// Refusals kept in one second; further ones are only counted. Default 10.
    package var keptRefusalsPerSecond = 10
    /// Replaced rules texts that are kept for each namespace, together up to 2 MiB; 0 keeps none. Default 10.
    package var formerRules = 10
    /// The longest time in ms that an administrator's request waits for derived data (counters, copies, expiries). Default 20,000: below
    /// `requestSeconds`.
    package var derivedWaitMs = 20_000
    /// Bytes per second that a request body or a WebSocket message must bring on average in each `requestSeconds`, and that a peer must
    /// read of a waiting response. Default 8 KiB.
    package var bodyBytesPerSecond = 8 << 10

    /// Bytes that the process may hold for all its clients in addition to the trees: incomplete messages and bodies, values parsed from
    /// them, pending responses and the old versions that they retain. A client that would exceed it is refused: a socket is closed with
    /// 1013, a request answered with 503, `too_big` or 413. Default: a quarter of the memory that the process may use, at least 256 MiB and
    /// at most 1 GiB.
    public var memoryBytes = MemoryLimit.defaultBudget
    /// Limit of one address' share of `memoryBytes` (an IPv6 network of 64 bits); 0 for half. Default 0. This machine's own
    /// addresses may use all of it, unless `AdmissionLimits.countsLoopback` is set.
    package var addressMemoryBytes = 0
    /// Bytes of a message or body above which it is parsed off the net loop. Default 32 KiB: larger ones take milliseconds, and
    /// many connections may send them at once.
    package var largeRequestBytes = 32 << 10
    /// Large requests parsed or responses encoded concurrently; 0 for one per processor, at least two. Default 0.
    package var largeRequests = 0
    /// The same for one address; further ones wait for their turn. 0 for half of `largeRequests`. Default 0.
    package var largeRequestsOfAddress = 0
    /// Work of one connection in one turn of its net loop, before other connections take theirs: bytes of messages after inflating, plus
    /// 512 for each (`WebSocketDecoder.eventWork`). One message may exceed it. Default 32 KiB: some 60 small messages.
    package var turnWork = 32 << 10
    /// HTTP requests of one connection that are answered in one turn, before other connections take theirs and before it has read the
    /// responses. Default 32.
    package var turnRequests = 32
    /// Bytes of a body above which a request that no rule could allow is refused before the rest is read. Default 64 KiB.
    package var earlyRefusalBytes = 64 << 10

    public init() {}

    /// How often each user may write, in addition to the rules' rates for places; nil for no limit. Default nil.
    public var writeRate: WriteRate? {
        get { engine.writeRate }
        set { engine.writeRate = newValue }
    }

    /// Seconds of silence after which a peer counts as lost, on all transports: its session ends and its onDisconnect writes are committed.
    /// A ping is sent after half of that time at the latest, so that the peer has as long to answer. At least 2. Default 60.
    public var presenceSeconds: Int {
        get { silenceSeconds }
        set {
            (silenceSeconds, longPoll.silenceSeconds) = (newValue, newValue)
            let half = max(1, newValue / 2)
            pingAfterSeconds = min(ServerLimits().pingAfterSeconds, half)
            longPoll.holdSeconds = min(LongPollLimits().holdSeconds, half)
        }
    }

    /// The transport's settings.
    /// - Parameter isFilling: whether loops are filled one after the other.
    func transport(isFilling: Bool) -> NetSettings {
        var net = net
        net.outboundTotalBytes = max(outboundBytes > 0 ? outboundBytes : memoryBytes / 2, 64 << 20)
        net.connectionsPerLoop = isFilling ? connectionsPerLoop : 0
        return net
    }
}
