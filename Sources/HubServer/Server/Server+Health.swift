import Dispatch
import DispatchNet
import HTTPTypes
import HubEngine
import WireProtocols

/// `/.health`: whether the hub serves, and whether it can store writes (docs/operations.md).
extension Server {
    /// Why writes are refused now; nil while every open namespace accepts them. One that is being removed refuses them, which is no fault
    /// of the hub.
    var refusal: CommitRefusal? { hub.all.lazy.filter { [catalog] in !catalog.isChanging($0.name) }.compactMap(\.counters.refusal).first }

    /// A hub that refuses writes still serves reads, and a restart would not free disk space: `/.health` stays 200.
    /// `/.health/ready`, for load balancers that route writes, is then 503.
    func health(_ request: HTTPInboundRequest) -> [UInt8] {
        let asksReadiness = request.target.segments.count > 1 && request.target.segments[1] == "ready"
        guard let (reason, why) = refusal.map({ ($0.rawValue, $0.healthText) }) ?? clusterFault else {
            return plain(.ok, "{\"status\":\"ok\"\(clusterHealth)}\n", "application/json", request)
        }
        let text = "{\"status\":\"degraded\",\"reason\":\"\(reason)\",\"text\":\"\(why)\"\(clusterHealth)}\n"
        return plain(asksReadiness ? .serviceUnavailable : .ok, text, "application/json", request)
    }
}

extension CommitRefusal {
    fileprivate var healthText: String {
        switch self {
        case .diskFull: "The disk is full: writes are refused until there is space, reads continue."
        case .diskFailed, .outcomeUnknown:
            "The disk refuses: writes are refused until it takes them, reads continue. The log has the reason."
        case .conflict: "Another hub has written to this one's journal: writes are refused."
        case .logUnavailable:
            "The servers that keep the cluster's log cannot be reached: writes are refused until they are, reads continue."
        case .logRegressed: "The cluster's log is not the one that this hub has followed: writes are refused, reads continue."
        case .following, .cutOff: "This hub follows another one and has lost it: what it shows may be old."
        case .stopping: "The hub is stopping."
        }
    }
}

extension Server {
    /// Calls back when each net loop and each database have run a task. It never does while one of them hangs: a database that hangs does
    /// not recover, so the service manager should restart the hub, although its other databases are interrupted.
    public func whenResponsive(_ done: @escaping @Sendable () -> Void) {
        let countdown = Countdown(lanes.count) { [hub] in
            let databases = hub.all
            let all = Countdown(databases.count, done)
            for database in databases { database.queue.async { all.arrive() } }
        }
        for lane in lanes { lane.loop.execute { countdown.arrive() } }
    }
}
