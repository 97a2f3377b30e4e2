import JSONTree
package import Logging
import Synchronization

/// The keys of one external issuer, cached as its responses allow. From any thread; concurrent requests share one fetch.
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
    /// ms of a monotonic clock.
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

    /// The key with this id, among unexpired keys.
    package func held(_ id: String) -> VerifyingKey? {
        state.withLock { state in state.schedule.isFresh(now()) ? state.keys?.first { $0.id == id } : nil }
    }

    /// When the cached keys expire, by the same clock.
    package var freshUntil: Int64 { state.withLock { $0.schedule.freshUntil } }

    /// The key with this id; waits for a fetch if necessary.
    /// - Throws: `unknownKey`; `keysUnavailable` if the fetch fails and no usable keys are cached.
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

    /// OpenID Connect Discovery §4.3: the document must name the same issuer.
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

/// Decides when to fetch an issuer's keys. A value type; callers pass the time of a monotonic clock in ms.
///
///     none, or expired ─────────► fetch (after a failure: not before `retrySeconds`)
///     fresh, key not among them ► fetch (not before `unknownKeySeconds` since the last attempt)
///     fetch fails ──────────────► cached keys stay in use for `staleSeconds`; without any, no token is accepted
package struct KeySchedule {
    private let settings: KeyFetchSettings
    private(set) var freshUntil: Int64 = .min
    private var lastTry: Int64?
    private var hasFailed = false

    package init(_ settings: KeyFetchSettings) { self.settings = settings }

    package func isFresh(_ now: Int64) -> Bool { now < freshUntil }

    /// Whether the cached keys may still be used after a failed fetch.
    package func isUsable(_ now: Int64) -> Bool { now < freshUntil.addingClamped(Int64(settings.staleSeconds) * 1000) }

    /// Whether to fetch keys for a token.
    /// - Parameter isHeld: whether the token's key is cached.
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
        // A clock that was set back must not delay the fetch.
        lastTry.map { now < $0 || now >= $0 + Int64(seconds) * 1000 } ?? true
    }

    /// - Parameter maxAge: seconds, from the response.
    package mutating func fetched(maxAge: Int?, _ now: Int64) {
        hasFailed = false
        let age = min(max(maxAge ?? settings.defaultAgeSeconds, settings.minAgeSeconds), settings.maxAgeSeconds)
        freshUntil = now + Int64(age) * 1000
    }

    package mutating func failed() { hasFailed = true }
}

/// Fetches the documents in which issuers publish their keys. Tests replace it.
public protocol KeyFetching: Sendable {
    /// - Parameter url: from the operator's settings, or from a document fetched from such a URL.
    func fetch(_ url: String) async throws(KeyFetchFault) -> FetchedDocument
}

/// A fetched document.
public struct FetchedDocument: Sendable, Equatable {
    public var body: [UInt8]
    /// Seconds of its `Cache-Control: max-age`; nil without one, 0 if it must not be cached.
    public var maxAge: Int?

    public init(body: [UInt8], maxAge: Int?) {
        self.body = body
        self.maxAge = maxAge
    }
}

/// Why a document could not be fetched; for the log.
public enum KeyFetchFault: Error, Sendable, Hashable, CustomStringConvertible {
    /// Neither https, nor http to this machine in development.
    case scheme
    /// More documents are being fetched than `KeyFetchSettings.waiting`.
    case tooMany
    /// Longer than `KeyFetchSettings.bytes`.
    case tooLong
    case status(Int)
    /// Not a key set or discovery document, or one of another issuer.
    case content(String)
    /// An error of libcurl.
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

/// Settings for fetching and caching issuers' keys.
public struct KeyFetchSettings: Sendable {
    /// Timeout in seconds for one document, from the name lookup to its last byte.
    package var timeoutSeconds = 10
    /// Most bytes of a document.
    package var bytes = 256 << 10
    /// Most redirects to follow, only to https URLs.
    package var redirects = 3
    /// Most documents fetched concurrently, over all issuers; each fetch takes one thread.
    package var waiting = 16
    /// Most keys of one set that are parsed.
    package var keys = 64
    /// Seconds for which keys are cached: the default without `max-age`, and the bounds of `max-age`.
    package var defaultAgeSeconds = 300
    package var minAgeSeconds = 60
    package var maxAgeSeconds = 86_400
    /// Seconds after expiry for which keys stay in use while a fetch fails, or after the issuer has withdrawn all keys.
    package var staleSeconds = 86_400
    /// Seconds between a failure and the next attempt.
    package var retrySeconds = 10
    /// Seconds between two fetches caused by an unknown key.
    package var unknownKeySeconds = 60

    public init() {}
}
