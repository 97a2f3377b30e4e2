import JSONTree
import LiveQueries
import Scheduling
import SecurityRules

/// Keeps running observers within the rules: no observer is sent data that the rules now deny (contract §8.3).
/// Confined to the database queue.
final class ReadPermissions {
    private let context: EngineContext
    private let format: any WireFormat
    private let content: Content
    private let places: PlaceTrie
    private let registry: ObserverRegistry
    private let precheck: PermissionPrecheck
    private let outbox: Outbox
    private let refusals: RefusalReports
    private var rates: CountRates
    /// Called when a stream is cancelled. A stream has one observer, so its client ends too (contract §7.6).
    var onStreamCancelled: (Client) -> Void = { _ in }

    init(
        _ context: EngineContext, _ format: any WireFormat, _ content: Content, _ places: PlaceTrie, _ registry: ObserverRegistry,
        _ precheck: PermissionPrecheck, _ outbox: Outbox, _ refusals: RefusalReports
    ) {
        self.context = context
        self.format = format
        self.content = content
        self.places = places
        self.registry = registry
        self.precheck = precheck
        self.outbox = outbox
        self.refusals = refusals
        rates = CountRates(callers: context.limits.countedCallers)
    }

    // MARK: Reads

    /// True if the rules currently allow a read. Reports a refusal.
    func allowsRead(_ path: Path, _ query: Query?, _ client: Client) -> Bool {
        if mayRead(path, query, client, in: content.root) { return true }
        refusals.report(.get, readOf: path, query, client.identity)
        return false
    }

    /// The same without a report, for checks that refuse nothing.
    func mayRead(_ path: Path, _ query: Query?, _ client: Client, in root: Node) -> Bool {
        client.identity.isAdmin
            || content.rules.allowsRead(
                path, root: root, auth: client.identity.auth, now: context.clock(), query: query.map(QueryVariables.init))
    }

    /// The query with the position fields that the rules of its place declare, and with the region that is stored at the place of its
    /// `within`. A client needs the permission to read that place. Reports a refusal.
    func located(_ query: Query, at path: Path, for client: Client) -> Result<Query, Failure> {
        guard query.hasArea else { return .success(query) }
        let fields = content.rules.geoFields(at: path)
        guard case .stored(let place)? = query.within?.source else { return .success(query.located(by: fields)) }
        guard allowsRead(place, nil, client) else { return .failure(.permissionDenied) }
        var visits = 0
        defer { context.meter.spend(1 + visits / RequestCost.childrenForWork) }
        do throws(QueryFault) {
            let region = try Region(stored: content.root.node(at: place), named: place.relativeText, visits: &visits)
            return .success(query.located(by: fields, within: region))
        } catch {
            return .failure(Failure(error.reason == .tooBig ? .tooBig : .failure, "\"within\": \(error.description)."))
        }
    }

    /// Why an observer may not change its query; nil if it may. Reports a refusal by the rules.
    func refusal(of observation: Observation, _ client: Client) -> Failure? {
        let (path, query) = (observation.path, observation.query)
        let isAllowed = observation.style.isCount ? allowsCount(path, query, client) : allowsRead(path, query, client)
        return isAllowed ? nil : .permissionDenied
    }

    // MARK: Counts

    /// True if the rules currently allow a count. Reports a refusal.
    func allowsCount(_ path: Path, _ query: Query?, _ client: Client) -> Bool {
        let identity = client.identity
        if identity.isAdmin { return true }
        let asked = query.map(QueryVariables.init)
        if content.rules.allowsCount(path, root: content.root, auth: identity.auth, now: context.clock(), query: asked) { return true }
        refusals.report(.get, readOf: path, query, identity, isCount: true)
        return false
    }

    /// The query that is counted for a client. Rules may require a different circle for anonymous callers.
    func counted(_ query: Query?, at path: Path, for client: Client) -> Query? {
        client.identity.isAdmin ? query : content.rules.counted(query, at: path, by: client.identity.auth)
    }

    /// Records a count that the rules allow, of a single request or a new observer.
    /// - Returns: why it exceeds the rate limit; nil if it does not.
    func noteCount(of path: Path, _ client: Client) -> Failure? {
        guard !client.identity.isAdmin, CountTerms.concern(client.identity.auth), let terms = content.rules.countTerms(at: path),
            let most = terms.perMinute
        else { return nil }
        let caller = CountRates.Caller(address: client.address, place: terms.pattern)
        return rates.admit(caller, atMost: most, now: context.scheduler.steadyMs).map { .tooManyCounts(most, afterMs: $0) }
    }

    // MARK: Observers

    /// True if the rules allow the observer. It is then rechecked whenever the data that they read changes. Reports a refusal.
    func permits(_ observation: Observation, of client: Client, as request: RuledRequest) -> Bool {
        context.meter.spend(1)
        context.meter.counters.observersAsked += 1
        if client.identity.isAdmin {
            registry.setDependencies([], of: observation, client)
            return true
        }
        let decision = content.rules.decide(observation, root: content.root, auth: client.identity.auth, now: context.clock())
        return follow(decision, on: observation, of: client, as: request)
    }

    private func follow(_ decision: ReadDecision, on observation: Observation, of client: Client, as request: RuledRequest) -> Bool {
        if decision.isAllowed {
            registry.setDependencies(decision.dependencies, subtreeDependencies: decision.subtreeDependencies, of: observation, client)
        } else {
            registry.setDependencies([], of: observation, client)
        }
        if !decision.isAllowed {
            refusals.report(request, readOf: observation.path, observation.query, client.identity, isCount: observation.style.isCount)
        }
        return decision.isAllowed
    }

    /// Runs after a commit, before its notifications. Cancels the observers that lost their permission. Prechecked decisions are reused.
    /// - Parameter touched: observers whose permission depends on what the commit has changed.
    func recheck(_ touched: [Dependent]) {
        for dependent in touched {
            let (observation, client) = (dependent.observation, dependent.client)
            guard let decision = precheck.decision(on: dependent, in: content.root) else {
                recheck(observation, of: client)
                continue
            }
            context.meter.spend(1)
            let isSame = decision.dependencies == dependent.places && decision.subtreeDependencies == dependent.subtreeDependencies
            if decision.isAllowed, isSame { continue }
            if !follow(decision, on: observation, of: client, as: .cancelledListen) { cancel(observation, of: client) }
        }
    }

    /// Call after the client's identity has changed.
    func recheckObservers(of client: Client) {
        registry.charge(client)
        for observation in client.observations { recheck(observation, of: client) }
    }

    /// Call after the rules, or the whole tree, were replaced.
    func recheckAllObservers() {
        for client in places.clients() { recheckObservers(of: client) }
    }

    private func recheck(_ observation: Observation, of client: Client) {
        if !permits(observation, of: client, as: .cancelledListen) { cancel(observation, of: client) }
    }

    /// Ends an observer that is no longer allowed, and notifies its client.
    func cancel(_ observation: Observation, of client: Client) { end(observation, of: client, .permissionDenied) }

    /// Ends an observer and sends its client the reason.
    func end(_ observation: Observation, of client: Client, _ failure: Failure) {
        guard client.observations.contains(observation) else { return }
        registry.remove(observation, of: client)
        notifyEnd(observation, to: client, failure)
        if observation.style.isStream {
            onStreamCancelled(client)
            outbox.close(client)
        }
    }
}

extension ReadPermissions {
    /// Notifies a client that its observer, already removed, has ended.
    func notifyEnd(_ observation: Observation, to client: Client, _ failure: Failure) {
        if client.hasEnded { return }
        let message = format.ended(observation.path, query: observation.query, style: observation.style, failure)
        outbox.send(message, to: client)
    }
}
