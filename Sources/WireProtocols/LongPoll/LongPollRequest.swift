import Cryptography

/// A GET of `/.lp` (contract §1.8). All but the last two are loaded by script tags.
public enum LongPollRequest: Sendable, Hashable {
    /// Begins a session. `callback` is the number at the end of the page's function names: digits only or empty, as it is repeated in a script.
    case open(callback: String)
    /// Polls for messages, and may carry segments of requests.
    case poll(LongPollKey, serial: Int64?, segments: [LongPollSegment])
    /// The page of an iframe that sends the disconnect request when it is unloaded.
    case disconnectPage(LongPollKey)
    /// The disconnect request of that page.
    case disconnect(LongPollKey)

    /// - Throws: `LongPollError.malformedRequest` for anything else.
    public init(_ target: HTTPTarget) throws(LongPollError) {
        var values: [String: String] = [:]
        for item in target.query where values[item.name] == nil { values[item.name] = item.value }
        if values["start"] == "t" {
            let callback = values["cb"] ?? ""
            guard callback.utf8.count <= 20, callback.utf8.allSatisfy(\.isDigit) else { throw .malformedRequest }
            self = .open(callback: callback)
            return
        }
        guard let id = values["id"], let password = values["pw"] else { throw .malformedRequest }
        let key = LongPollKey(id: id, password: password)
        if values["disconn"] == "t" {
            self = .disconnect(key)
        } else if values["dframe"] == "t" {
            self = .disconnectPage(key)
        } else {
            self = .poll(key, serial: values["ser"].flatMap { Int64($0) }, segments: try Self.segments(values))
        }
    }

    /// `seg0, ts0, d0, seg1, …` with consecutive indices.
    private static func segments(_ values: [String: String]) throws(LongPollError) -> [LongPollSegment] {
        var segments: [LongPollSegment] = []
        while let number = values["seg\(segments.count)"] {
            let index = segments.count
            guard let number = Int(number), number >= 0, let pieces = values["ts\(index)"].flatMap({ Int($0) }), pieces > 0,
                let data = values["d\(index)"]
            else { throw .malformedRequest }
            segments.append(LongPollSegment(number: number, pieces: pieces, data: Array(data.utf8)))
        }
        return segments
    }
}

/// The credentials of a long-polling session.
public struct LongPollKey: Sendable, Hashable {
    public var id: String
    public var password: String

    public init(id: String, password: String) {
        self.id = id
        self.password = password
    }

    /// Whether id and password match; compares the password in constant time.
    public func matches(_ secret: LongPollKey) -> Bool {
        isSameSecret(Array(password.utf8), Array(secret.password.utf8)) && id == secret.id
    }
}

/// One piece of a client's message (contract §1.8, upstream).
public struct LongPollSegment: Sendable, Hashable {
    /// Position among all segments of the session, from 0.
    public var number: Int
    /// The number of segments of its message.
    public var pieces: Int
    /// Base64 text.
    public var data: [UInt8]

    public init(number: Int, pieces: Int, data: [UInt8]) {
        self.number = number
        self.pieces = pieces
        self.data = data
    }
}

/// Why a long-polling session ends.
public enum LongPollError: Error, Sendable, Hashable {
    /// Not one of the requests of `LongPollRequest`, or a parameter that is not a number.
    case malformedRequest
    /// Too many segments arrived before a missing one.
    case tooFarAhead
    /// The segments of one message have different counts, or a count above 999,999.
    case pieceCount
    /// A segment is not URL-safe base64.
    case notBase64
    /// More than `queuedBytes` wait for the client's next poll.
    case tooMuchQueued
    /// More than `unansweredBytes` of requests have no reply yet.
    case tooMuchUnanswered

    /// A plain sentence for the log.
    public var reason: String {
        switch self {
        case .malformedRequest: "malformed long-polling request"
        case .tooFarAhead: "segments too far ahead of one that is missing"
        case .pieceCount: "impossible number of segments in a message"
        case .notBase64: "segment is not base64"
        case .tooMuchUnanswered: "too much asked by a client that does not wait for answers"
        case .tooMuchQueued: "too much queued for a client that does not poll"
        }
    }
}

/// Limits of long polling.
public struct LongPollLimits: Sendable, Hashable {
    /// Seconds after which a poll gets a response without messages; clients poll again after 25. Default 20.
    package var holdSeconds = 20
    /// Milliseconds for which a poll with requests waits for their replies, even if other messages are queued. Otherwise each reply would need
    /// another poll, after older messages. Default 20.
    package var answerMs = 20
    /// Seconds without a poll after which the client counts as disconnected. Default 60 (contract §1.8).
    package var silenceSeconds = 60
    /// Most concurrent sessions of a server, and of one address (an IPv6 network of 64 bits). Beyond these, a new session gets 503 or 429.
    /// Default 10,000 and 500.
    package var sessions = 10_000
    package var sessionsPerAddress = 500
    /// Most segments, and bytes of them, that may wait for an earlier one; exceeding it ends the session. Default 256 and 512 KiB.
    package var segmentsAhead = 256
    package var bytesAhead = 512 << 10
    /// Most bytes that may wait for the client's next poll; exceeding it ends the session. Default 64 MiB.
    package var queuedBytes = 64 << 20
    /// Most bytes of requests without a reply; exceeding it ends the session. Default 32 MiB: two of the largest.
    package var unansweredBytes = 32 << 20
    /// Minimum average bytes per second, over each 30 s, of a message split into several requests. Low, as long polling is slow over long round
    /// trips. Default 512.
    package var bytesPerSecond = 512
    /// Most bytes of requests that may wait on a joined WebSocket until all requests sent by polls have arrived. Default 32 MiB.
    package var joiningBytes = 32 << 20

    public init() {}
}
