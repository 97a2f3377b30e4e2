import DequeModule
import Dispatch
import Glibc
import HubEngine
import Scheduling
import Synchronization

/// Verifies signed tokens off the net loops: a signature costs some 100 µs, and anonymous clients may send any number of tokens.
///
/// ```
/// verify ─┬─ remembered as valid ──────────────────────► done, immediately
///         ├─ too many tokens of its address refused ───► unavailable, immediately
///         ├─ too many bytes waiting ───────────────────► unavailable, immediately
///         └─ waits for its address' turn ─► (too many refused meanwhile: unavailable) ─► the verifier ─► done
/// ```
///
/// A remembered token costs no hop. From any thread.
final class TokenChecks: Sendable {
    fileprivate struct Check {
        let token: String
        let address: String?
        let done: @Sendable (Result<Identity, Failure>) -> Void
        var cost: Int { token.utf8.count + TokenChecks.overheadBytes }
    }

    /// The checks of one address that wait.
    fileprivate struct AddressChecks {
        var checks = Deque<Check>()
        var bytes = 0
    }

    fileprivate struct State {
        /// Waiting checks by address; nil stands for this machine's own addresses.
        var checksByAddress: [String?: AddressChecks] = [:]
        /// Addresses in round-robin order; an address with further checks is appended again.
        var turns = Deque<String?>()
        var waiting = 0
        var bytes = 0
        var running = 0
        var refused: RefusedTokens
    }

    /// Bytes of a waiting check in addition to its token.
    static let overheadBytes = 512

    static let tooMuchWaits = Failure(.unavailable, "Too many tokens are waiting to be checked. Try again later.")
    static let tooManyRefused = Failure(.unavailable, "Too many tokens of your network were refused. Try again later.")

    private let verifier: any TokenVerifier
    private let threads: Int
    private let mostBytes: Int
    private let mostBytesOfAddress: Int
    private let scheduler: Scheduler
    private let state: Mutex<State>
    private let queue = DispatchQueue(label: "vigla.tokens", qos: .utility, attributes: .concurrent)

    init(_ verifier: any TokenVerifier, _ limits: ServerLimits, _ scheduler: Scheduler) {
        self.verifier = verifier
        threads = limits.tokenChecks > 0 ? limits.tokenChecks : max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)) / 2)
        mostBytes = limits.tokenCheckBytes
        mostBytesOfAddress = limits.tokenCheckBytes / 4
        self.scheduler = scheduler
        state = Mutex(State(refused: RefusedTokens(perMinute: limits.refusedTokensPerMinute)))
    }

    /// Verifies a token.
    /// - Parameters:
    ///   - address: the address that a refusal is charged to; nil for this machine's own, which are not counted. Evaluated only if the
    ///     token must be verified.
    ///   - done: called once, immediately or from another thread.
    func verify(_ token: String, of address: () -> String?, _ done: @escaping @Sendable (Result<Identity, Failure>) -> Void) {
        if let known = verifier.remembered(token) { return done(.success(known)) }
        let check = Check(token: token, address: address(), done: done)
        let now = scheduler.steadyMs
        let (refusal, mustBegin) = state.withLock { state in state.add(check, now, mostBytes, mostBytesOfAddress, threads) }
        if let refusal { return done(.failure(refusal)) }
        if mustBegin { queue.async { [self] in work() } }
    }

    /// Numbers of running and of waiting checks.
    var counts: (running: Int, waiting: Int) { state.withLock { ($0.running, $0.waiting) } }

    /// Verifies waiting tokens until none are left. One call per thread.
    private func work() {
        while let check = state.withLock({ $0.next() }) {
            let now = scheduler.steadyMs
            if let address = check.address, state.withLock({ $0.refused.isFull(address, now) }) {
                check.done(.failure(Self.tooManyRefused))
                continue
            }
            verifier.verify(check.token) { [self] result in
                if case .failure(let failure) = result, failure.code != .unavailable, let address = check.address {
                    state.withLock { $0.refused.add(address, now) }
                }
                check.done(result)
            }
        }
    }
}

extension TokenChecks.State {
    /// Queues a check.
    /// - Returns: the refusal, or whether to start another thread.
    fileprivate mutating func add(
        _ check: TokenChecks.Check, _ now: Int64, _ most: Int, _ mostOfAddress: Int, _ threads: Int
    ) -> (refusal: Failure?, mustBegin: Bool) {
        if let address = check.address, refused.isFull(address, now) { return (TokenChecks.tooManyRefused, false) }
        let cost = check.cost
        let own = checksByAddress[check.address]?.bytes ?? 0
        guard bytes + cost <= most, check.address == nil || own + cost <= mostOfAddress else { return (TokenChecks.tooMuchWaits, false) }
        if checksByAddress[check.address] == nil { turns.append(check.address) }
        checksByAddress[check.address, default: TokenChecks.AddressChecks()].checks.append(check)
        checksByAddress[check.address]?.bytes += cost
        bytes += cost
        waiting += 1
        guard running < threads else { return (nil, false) }
        running += 1
        return (nil, true)
    }

    /// The next check in round-robin order; nil, and one running thread less, when none waits.
    fileprivate mutating func next() -> TokenChecks.Check? {
        guard let address = turns.popFirst(), let index = checksByAddress.index(forKey: address),
            let check = checksByAddress.values[index].checks.popFirst()
        else {
            running -= 1
            return nil
        }
        checksByAddress.values[index].bytes -= check.cost
        bytes -= check.cost
        waiting -= 1
        if checksByAddress.values[index].checks.isEmpty { checksByAddress.remove(at: index) } else { turns.append(address) }
        return check
    }
}

/// A rate limit on refused tokens per address: a burst of one minute's number, refilled evenly. A value type; callers pass the time in
/// ms.
struct RefusedTokens {
    private let intervalMs: Double
    private let periodMs: Double = 60_000
    /// When each address' limit is fully refilled, in ms. Addresses without an entry have a full limit.
    private var refilledAt: [String: Double] = [:]
    /// Number of entries at which fully refilled ones are removed.
    private var sweepAt = 1024

    init(perMinute count: Int) { intervalMs = periodMs / Double(max(1, count)) }

    /// Number of entries.
    var known: Int { refilledAt.count }

    /// Whether the limit of an address is used up.
    func isFull(_ address: String, _ now: Int64) -> Bool {
        guard let clear = refilledAt[address] else { return false }
        return clear - Double(now) > periodMs - intervalMs + 1e-6
    }

    /// Counts a refused token.
    mutating func add(_ address: String, _ now: Int64) {
        refilledAt[address] = max(refilledAt[address] ?? 0, Double(now)) + intervalMs
        guard refilledAt.count >= sweepAt else { return }
        refilledAt = refilledAt.filter { $0.value > Double(now) }
        sweepAt = max(1024, refilledAt.count * 2)
    }
}
