import DispatchNet
import Scheduling
import Synchronization
import WireProtocols

/// The sessions that began by long polling. The requests of one session come on any connection and look it up here. From any thread.
final class LongPollSessions: Sendable {
    private struct State {
        var byID: [String: LongPollCarrier] = [:]
        var bySession: [String: LongPollCarrier] = [:]
        /// The server is stopping: no new session is accepted.
        var isClosed = false
        /// Number of sessions by network; loopback is counted only with `countsLoopback`.
        var networks = NetworkCounts<SocketAddress>()
    }

    private let state = Mutex(State())
    private let limits: LongPollLimits
    private let countsLoopback: Bool

    init(limits: LongPollLimits, countsLoopback: Bool) {
        self.limits = limits
        self.countsLoopback = countsLoopback
    }

    /// Why a session is refused.
    enum Refusal {
        /// The limit of all sessions is reached, or the server is stopping.
        case total
        /// The limit of sessions per address is reached.
        case address
    }

    var count: Int { state.withLock { $0.byID.count } }

    /// Registers a session; nil on success.
    func add(_ carrier: LongPollCarrier) -> Refusal? {
        state.withLock { state in
            guard !state.isClosed, state.byID.count < limits.sessions, state.byID[carrier.key.id] == nil else { return .total }
            if countsLoopback || !carrier.network.isLoopback {
                let wide = carrier.network.wideNetwork
                guard state.networks.hasRoom(carrier.network, of: wide, atMost: limits.sessionsPerAddress) else { return .address }
                state.networks.add(carrier.network, of: wide)
            }
            state.byID[carrier.key.id] = carrier
            state.bySession[carrier.sessionID] = carrier
            return nil
        }
    }

    func remove(_ carrier: LongPollCarrier) {
        state.withLock { state in
            guard state.byID.removeValue(forKey: carrier.key.id) != nil else { return }
            state.bySession[carrier.sessionID] = nil
            state.networks.remove(carrier.network, of: carrier.network.wideNetwork)
        }
    }

    /// The session with this key: id and password must match.
    func find(_ key: LongPollKey) -> LongPollCarrier? {
        guard let carrier = state.withLock({ $0.byID[key.id] }), key.matches(carrier.key) else { return nil }
        return carrier
    }

    /// The session with this session id (contract §1.2 `s`).
    func find(session: String) -> LongPollCarrier? { state.withLock { $0.bySession[session] } }

    /// Ends all sessions, each on its lane, then calls back.
    func endAll(_ lanes: [LoopSessions], _ done: @escaping @Sendable () -> Void) {
        let all = state.withLock { state in
            state.isClosed = true
            return Array(state.byID.values)
        }
        let countdown = Countdown(lanes.count, done)
        for lane in lanes {
            let carriers = all.filter { $0.lane === lane }
            lane.loop.execute {
                for carrier in carriers { carrier.stop() }
                countdown.arrive()
            }
        }
    }
}
