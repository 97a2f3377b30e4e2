import DispatchNet
import Synchronization
import WireProtocols

/// The sessions that live, or began, on long polling: requests of one session come on any connection and find it here.
/// Callable from any thread.
final class LongPollSessions: Sendable {
    private struct State {
        var byID: [String: LongPollCarrier] = [:]
        var bySession: [String: LongPollCarrier] = [:]
        /// The server is stopping: no session begins any more.
        var isClosed = false
    }

    private let state = Mutex(State())
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    var count: Int { state.withLock { $0.byID.count } }

    /// False when there are as many as may be; the session must not begin then.
    func add(_ carrier: LongPollCarrier) -> Bool {
        state.withLock { state in
            guard !state.isClosed, state.byID.count < limit, state.byID[carrier.key.id] == nil else { return false }
            state.byID[carrier.key.id] = carrier
            state.bySession[carrier.sessionID] = carrier
            return true
        }
    }

    func remove(_ carrier: LongPollCarrier) {
        state.withLock { state in
            state.byID[carrier.key.id] = nil
            state.bySession[carrier.sessionID] = nil
        }
    }

    /// The session that the key opens.
    func find(_ key: LongPollKey) -> LongPollCarrier? {
        guard let carrier = state.withLock({ $0.byID[key.id] }), key.opens(carrier.key) else { return nil }
        return carrier
    }

    /// The session with this session id (contract §1.2 `s`).
    func find(session: String) -> LongPollCarrier? { state.withLock { $0.bySession[session] } }

    /// Ends all sessions, each on its lane, then calls back.
    func endAll(_ lanes: [Lane], _ done: @escaping @Sendable () -> Void) {
        let all = state.withLock { state in
            state.isClosed = true
            return Array(state.byID.values)
        }
        let countdown = Countdown(lanes.count, done)
        for lane in lanes {
            let carriers = all.filter { $0.lane === lane }
            lane.loop.execute {
                for carrier in carriers { carrier.end() }
                countdown.arrive()
            }
        }
    }
}
