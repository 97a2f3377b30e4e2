/// Brings the documents in which other services publish their keys. Tests bring their own.
public protocol KeyFetching: Sendable {
    /// - Parameter url: from the operator's settings, or from a document that such a URL led to.
    func fetch(_ url: String) async throws(KeyFetchFault) -> FetchedDocument
}

/// What was brought.
public struct FetchedDocument: Sendable, Equatable {
    public var body: [UInt8]
    /// Seconds that it is good for, as `Cache-Control: max-age` says; nil when the answer does not say, 0 when it must not be kept.
    public var maxAge: Int?

    public init(body: [UInt8], maxAge: Int?) {
        self.body = body
        self.maxAge = maxAge
    }
}

/// Why a document did not come; for the log.
public enum KeyFetchFault: Error, Sendable, Hashable, CustomStringConvertible {
    /// Neither https, nor http to this machine in development.
    case scheme
    /// More documents wait than `KeyFetchSettings.waiting`.
    case tooMany
    /// Longer than `KeyFetchSettings.bytes`.
    case tooLong
    case status(Int)
    /// No key set, no discovery document, or one of another issuer.
    case content(String)
    /// What libcurl says.
    case network(String)

    public var description: String {
        switch self {
        case .scheme: "keys are fetched from https:// addresses only"
        case .tooMany: "too many key sets are being fetched"
        case .tooLong: "the document is too long"
        case .status(let code): "the answer has the status \(code)"
        case .content(let what): what
        case .network(let what): what
        }
    }
}

/// How keys of other services are fetched and kept.
public struct KeyFetchSettings: Sendable {
    /// Seconds for one document, from the first look-up of a name to its last byte.
    public var timeoutSeconds = 10
    /// Bytes of a document.
    public var bytes = 256 << 10
    /// Redirections that are followed, to https addresses only.
    public var redirects = 3
    /// Documents that are fetched at the same time, of all issuers; each has a thread while it lasts.
    public var waiting = 16
    /// Keys of one set that are looked at.
    public var keys = 64
    /// Seconds that keys are kept: when the answer does not say; and bounds for what it says.
    public var defaultAgeSeconds = 300
    public var minAgeSeconds = 60
    public var maxAgeSeconds = 86_400
    /// Seconds past their age that keys stay in use while none can be fetched, also because the issuer has withdrawn them all.
    public var staleSeconds = 86_400
    /// Seconds after a failure until the next try.
    public var retrySeconds = 10
    /// Seconds between two tries because of a key that is not in the set.
    public var unknownKeySeconds = 60

    public init() {}
}
