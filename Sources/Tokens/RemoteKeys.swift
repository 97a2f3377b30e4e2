import JSONTree
package import Logging
import Synchronization

/// The keys of one other service, kept as long as it says. From any thread; however many ask, one fetch is under way.
package final class RemoteKeys: Sendable {
    private struct State {
        var keys: [VerifyingKey]?
        var schedule: KeySchedule
        var fetch: Task<Void, Never>?
    }

    private let location: KeyLocation
    private let fetcher: any KeyFetching
    private let settings: KeyFetchSettings
    private let logger: Logger
    /// ms of a clock that never steps.
    private let now: @Sendable () -> Int64
    private let state: Mutex<State>

    package init(
        _ location: KeyLocation, fetcher: any KeyFetching, settings: KeyFetchSettings, logger: Logger, now: @escaping @Sendable () -> Int64
    ) {
        self.location = location
        self.fetcher = fetcher
        self.settings = settings
        self.logger = logger
        self.now = now
        state = Mutex(State(schedule: KeySchedule(settings)))
    }

    /// A key of this name among keys that are not past their age.
    package func held(_ id: String) -> VerifyingKey? {
        state.withLock { state in state.schedule.isFresh(now()) ? state.keys?.first { $0.id == id } : nil }
    }

    /// When the keys that are held are past their age, by the same clock.
    package var freshUntil: Int64 { state.withLock { $0.schedule.freshUntil } }

    /// The key of this name; waits for a fetch if it takes one.
    /// - Throws: `unknownKey`; `keysUnavailable` when nothing is held, or it is too old, and nothing can be fetched.
    package func key(_ id: String) async throws(TokenFault) -> VerifyingKey {
        let fetch: Task<Void, Never>? = state.withLock { state in
            let isHeld = state.keys?.contains { $0.id == id } ?? false
            if let fetch = state.fetch { return isHeld && state.schedule.isFresh(now()) ? nil : fetch }
            guard state.schedule.wantsFetch(isHeld: isHeld, now()) else { return nil }
            let fetch = Task { await self.renew() }
            state.fetch = fetch
            return fetch
        }
        await fetch?.value
        let keys = state.withLock { state in state.schedule.isUsable(now()) ? state.keys : nil }
        guard let keys else { throw .keysUnavailable }
        guard let key = keys.first(where: { $0.id == id }) else { throw .unknownKey }
        return key
    }

    private func renew() async {
        let result: Result<(keys: [VerifyingKey], maxAge: Int?), KeyFetchFault>
        do throws(KeyFetchFault) { result = .success(try await load()) } catch { result = .failure(error) }
        state.withLock { state in
            state.fetch = nil
            switch result {
            case .success(let loaded):
                state.keys = loaded.keys
                state.schedule.fetched(maxAge: loaded.maxAge, now())
            case .failure: state.schedule.failed()
            }
        }
        if case .failure(let fault) = result {
            logger.warning("Keys of another service cannot be fetched", metadata: ["from": "\(location)", "fault": "\(fault)"])
        }
    }

    private func load() async throws(KeyFetchFault) -> (keys: [VerifyingKey], maxAge: Int?) {
        let url: String
        switch location {
        case .keySet(let address): url = address
        case .discovery(let issuer): url = try await keySetURL(of: issuer)
        }
        let document = try await fetcher.fetch(url)
        let keys = try KeySet(document.body, limit: settings.keys).keys
        guard !keys.isEmpty else { throw .content("the key set has no key for RS256 or ES256") }
        return (keys, document.maxAge)
    }

    /// OpenID Connect Discovery §4: the document must name the very issuer that it was asked of.
    private func keySetURL(of issuer: String) async throws(KeyFetchFault) -> String {
        let base = issuer.hasSuffix("/") ? String(issuer.dropLast()) : issuer
        let document = try await fetcher.fetch(base + "/.well-known/openid-configuration")
        guard let configuration = try? JSONValue(document.body), configuration["issuer"]?.string == issuer else {
            throw .content("the discovery document is not that of \(issuer)")
        }
        guard let url = configuration["jwks_uri"]?.string else { throw .content("the discovery document has no jwks_uri") }
        return url
    }
}

/// When keys of another service are fetched. A pure value with the clock handed in: ms that never step.
///
///     none, or past their age ──► fetch (after a failure: not before `retrySeconds`)
///     fresh, key not among them ► fetch (not before `unknownKeySeconds` since the last try)
///     fetch fails ─────────────► what is held stays in use for `staleSeconds`; nothing held: no token is accepted
package struct KeySchedule {
    private let settings: KeyFetchSettings
    private(set) var freshUntil: Int64 = .min
    private var lastTry: Int64?
    private var hasFailed = false

    package init(_ settings: KeyFetchSettings) { self.settings = settings }

    package func isFresh(_ now: Int64) -> Bool { now < freshUntil }

    /// Whether what is held may be used when nothing newer can be had.
    package func isUsable(_ now: Int64) -> Bool { now < freshUntil.addingClamped(Int64(settings.staleSeconds) * 1000) }

    /// Whether to fetch for a token that needs a key.
    /// - Parameter isHeld: whether that very key is there.
    package mutating func wantsFetch(isHeld: Bool, _ now: Int64) -> Bool {
        if isFresh(now) {
            if isHeld || !isOver(settings.unknownKeySeconds, now) { return false }
        } else if hasFailed, !isOver(settings.retrySeconds, now) {
            return false
        }
        lastTry = now
        return true
    }

    private func isOver(_ seconds: Int, _ now: Int64) -> Bool {
        // A clock that was set back is no reason to wait for it.
        lastTry.map { now < $0 || now >= $0 + Int64(seconds) * 1000 } ?? true
    }

    /// - Parameter maxAge: seconds, as the answer says.
    package mutating func fetched(maxAge: Int?, _ now: Int64) {
        hasFailed = false
        let age = min(max(maxAge ?? settings.defaultAgeSeconds, settings.minAgeSeconds), settings.maxAgeSeconds)
        freshUntil = now + Int64(age) * 1000
    }

    package mutating func failed() { hasFailed = true }
}

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
