import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization

/// Background work that the test releases piece by piece.
final class GatedWork: Sendable {
    private let jobs = Mutex<[@Sendable () -> Void]>([])

    var work: BackgroundWork { BackgroundWork { [self] job in jobs.withLock { $0.append(job) } } }
    var count: Int { jobs.withLock { $0.count } }

    /// Runs one piece.
    /// - Returns: whether there was one.
    @discardableResult
    func runOne(_ index: Int = 0) -> Bool {
        guard let job = jobs.withLock({ jobs in jobs.indices.contains(index) ? jobs.remove(at: index) : nil }) else { return false }
        job()
        return true
    }
}

/// A harness whose background work is gated. Writes of three places or more count as large.
struct GatedHarness {
    let gate = GatedWork()
    let hub: EngineHarness

    init(
        _ rules: String? = nil, root: Node = .null, log: (any Journal)? = nil, limits: EngineLimits = .tight,
        budget: MemoryBudget = MemoryBudget(1 << 30), refusals: (any RefusalListener)? = nil
    ) throws {
        hub = EngineHarness(
            rules: try rules.map { try RuleSet(parsing: $0) } ?? .allowAll, root: root, log: log, limits: limits, background: gate.work,
            budget: budget, refusals: refusals)
    }

    func ask(_ client: Client, _ requests: Request...) -> [String] {
        for (i, request) in requests.enumerated() { hub.database.submit(request, from: client, token: Int64(i)) }
        return hub.take(client)
    }

    /// Runs all background work, and the work that it causes.
    func finish() {
        hub.settle()
        while gate.runOne() { hub.settle() }
    }

    /// The current content.
    var content: Node {
        let found = Mutex(Node.null)
        hub.database.snapshot { root, _, _ in found.withLock { $0 = root } }
        hub.settle()
        return found.withLock { $0 }
    }
}

extension EngineLimits {
    /// Limits that few places reach. Retries the log as late as `patient`.
    static let tight: EngineLimits = {
        var limits = EngineLimits.patient
        limits.largeWritePlaces = 2
        limits.followedPlaces = 2
        limits.preparations = 4
        limits.writePlaces = 8
        return limits
    }()
}

extension Client {
    static func user(_ uid: String, lane: Int = 0) -> Client {
        Client(lane: lane, dialect: .realtime, identity: Identity(auth: ["uid": .string(uid)]))
    }
}

extension Request {
    /// A write that adds one to each place.
    static func increments(_ paths: [Path]) -> Request {
        .write(paths.map { path in
            var value = WriteValue(0)
            value.deferred = [.init(path: .root, target: .value, value: .increment(1))]
            return TreeWrite(path, value)
        })
    }
}
