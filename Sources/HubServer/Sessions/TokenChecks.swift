import DequeModule
import Dispatch
import Glibc
import HubEngine
import Synchronization

/// Has signed tokens checked off the net loops: a signature costs some 100 µs, and strangers may send as many as they like.
///
/// ```
/// verify ─┬─ was good before ──────────────────► done, at once
///         ├─ too many of its address refused ──► unavailable, at once
///         ├─ too much waits ───────────────────► unavailable, at once
///         └─ waits for its address' turn ─► (too many refused meanwhile: unavailable) ─► the verifier ─► done
/// ```
///
/// A token that was good before costs no hop. From any thread.
final class TokenChecks: Sendable {
    fileprivate struct Check {
        let token: String
        let address: String?
        let done: @Sendable (Result<Identity, Failure>) -> Void
        var cost: Int { token.utf8.count + TokenChecks.overheadBytes }
    }

    /// The checks of one address that wait.
    fileprivate struct Line {
        var checks = Deque<Check>()
        var bytes = 0
    }

    fileprivate struct State {
        /// By address; this machine's own is nil.
        var lines: [String?: Line] = [:]
        /// Whose turn it is; an address with more checks gets another one behind the others.
        var turns = Deque<String?>()
        var waiting = 0
        var bytes = 0
        var running = 0
        var refused: RefusedTokens
    }

    /// What a check that waits holds beside its token.
    static let overheadBytes = 512

    static let tooMuchWaits = Failure(.unavailable, "Too many tokens are waiting to be checked. Try again later.")
    static let tooManyRefused = Failure(.unavailable, "Too many tokens of your network were refused. Try again later.")

    private let verifier: any TokenVerifier
    private let threads: Int
    private let mostBytes: Int
    private let mostBytesOfAddress: Int
    /// ms of a clock that never steps.
    private let now: @Sendable () -> Int64
    private let state: Mutex<State>
    private let queue = DispatchQueue(label: "vigla.tokens", qos: .utility, attributes: .concurrent)

    init(_ verifier: any TokenVerifier, _ limits: ServerLimits, now: @escaping @Sendable () -> Int64 = { Clock.steadyMs() }) {
        self.verifier = verifier
        threads = limits.tokenChecks > 0 ? limits.tokenChecks : max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)) / 2)
        mostBytes = limits.tokenCheckBytes
        mostBytesOfAddress = limits.tokenCheckBytes / 4
        self.now = now
        state = Mutex(State(refused: RefusedTokens(perMinute: limits.refusedTokensPerMinute)))
    }

    /// Finds out whose token it is.
    /// - Parameters:
    ///   - address: whose refused tokens are counted with it; nil for this machine's own, which are not counted. Asked for when
    ///     the token must be checked.
    ///   - done: called once: at once, or from another thread.
    func verify(_ token: String, of address: () -> String?, _ done: @escaping @Sendable (Result<Identity, Failure>) -> Void) {
        if let known = verifier.remembered(token) { return done(.success(known)) }
        let check = Check(token: token, address: address(), done: done)
        let now = now()
        let (refusal, mustBegin) = state.withLock { state in state.add(check, now, mostBytes, mostBytesOfAddress, threads) }
        if let refusal { return done(.failure(refusal)) }
        if mustBegin { queue.async { [self] in work() } }
    }

    /// Checks that are made, and that wait for their turn.
    var counts: (running: Int, waiting: Int) { state.withLock { ($0.running, $0.waiting) } }

    /// Checks what there is.
    private func work() {
        while let check = state.withLock({ $0.next() }) {
            let now = now()
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
    /// - Returns: why the check is not made; else whether another thread may begin.
    fileprivate mutating func add(
        _ check: TokenChecks.Check, _ now: Int64, _ most: Int, _ mostOfAddress: Int, _ threads: Int
    ) -> (refusal: Failure?, mustBegin: Bool) {
        if let address = check.address, refused.isFull(address, now) { return (TokenChecks.tooManyRefused, false) }
        let cost = check.cost
        let own = lines[check.address]?.bytes ?? 0
        guard bytes + cost <= most, check.address == nil || own + cost <= mostOfAddress else { return (TokenChecks.tooMuchWaits, false) }
        if lines[check.address] == nil { turns.append(check.address) }
        lines[check.address, default: TokenChecks.Line()].checks.append(check)
        lines[check.address]?.bytes += cost
        bytes += cost
        waiting += 1
        guard running < threads else { return (nil, false) }
        running += 1
        return (nil, true)
    }

    /// The check whose turn it is; nil, and one thread less, when there is none.
    fileprivate mutating func next() -> TokenChecks.Check? {
        guard let address = turns.popFirst(), let index = lines.index(forKey: address),
            let check = lines.values[index].checks.popFirst()
        else {
            running -= 1
            return nil
        }
        lines.values[index].bytes -= check.cost
        bytes -= check.cost
        waiting -= 1
        if lines.values[index].checks.isEmpty { lines.remove(at: index) } else { turns.append(address) }
        return check
    }
}

/// Tokens of each address that were refused: so many are free at once, and as many again in each minute. A value that is told the
/// time, in ms.
struct RefusedTokens {
    private let intervalMs: Double
    private let periodMs: Double = 60_000
    /// When nothing stands against an address any more. Who is not here has had none refused for a while.
    private var clearAt: [String: Double] = [:]
    /// Addresses that nothing stands against are forgotten when there are this many.
    private var sweepAt = 1024

    init(perMinute count: Int) { intervalMs = periodMs / Double(max(1, count)) }

    /// Addresses that are remembered.
    var known: Int { clearAt.count }

    /// Whether as many were refused as are free.
    func isFull(_ address: String, _ now: Int64) -> Bool {
        guard let clear = clearAt[address] else { return false }
        return clear - Double(now) > periodMs - intervalMs + 1e-6
    }

    /// One more was refused.
    mutating func add(_ address: String, _ now: Int64) {
        clearAt[address] = max(clearAt[address] ?? 0, Double(now)) + intervalMs
        guard clearAt.count >= sweepAt else { return }
        clearAt = clearAt.filter { $0.value > Double(now) }
        sweepAt = max(1024, clearAt.count * 2)
    }
}
