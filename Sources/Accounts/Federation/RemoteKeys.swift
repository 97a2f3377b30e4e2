import Logging
import Synchronization

/// The keys of one other service, kept as long as it says. From any thread; however many ask, one fetch is under way.
final class RemoteKeys: Sendable {
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

    init(
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
    func held(_ id: String) -> VerifyingKey? {
        state.withLock { state in state.schedule.isFresh(now()) ? state.keys?.first { $0.id == id } : nil }
    }

    /// When the keys that are held are past their age, by the same clock.
    var freshUntil: Int64 { state.withLock { $0.schedule.freshUntil } }

    /// The key of this name; waits for a fetch if it takes one.
    /// - Throws: `unknownKey`; `keysUnavailable` when nothing is held, or it is too old, and nothing can be fetched.
    func key(_ id: String) async throws(TokenFault) -> VerifyingKey {
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
