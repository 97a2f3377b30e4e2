import DispatchNet
import HTTPTypes
import Logging
import Scheduling
import Synchronization
import WireProtocols

/// Logs each HTTP request with its response while it is turned on. It is for debugging a client, not for keeping. Queries and header fields
/// are not logged, because they may contain credentials. From any thread.
final class RequestLog: Sendable {
    private let isTurnedOn: Atomic<Bool>
    private let scheduler: Scheduler
    private let logger: Logger

    init(isOn: Bool, _ scheduler: Scheduler, logger: Logger) {
        isTurnedOn = Atomic(isOn)
        self.scheduler = scheduler
        self.logger = logger
    }

    var isOn: Bool { isTurnedOn.load(ordering: .relaxed) }

    /// - Returns: whether it is on now.
    func toggle() -> Bool {
        let isOn = !isTurnedOn.logicalXor(true, ordering: .relaxed).oldValue
        logger.notice("requests are \(isOn ? "" : "no longer ")logged")
        return isOn
    }

    /// A request without a response yet.
    struct Entry {
        fileprivate let method: String
        fileprivate let path: String
        fileprivate let peer: SocketAddress
        fileprivate let beganNs: Int64
    }

    func begin(_ request: HTTPInboundRequest, _ peer: SocketAddress) -> Entry {
        Entry(method: request.method.rawValue, path: request.target.path, peer: peer, beganNs: scheduler.steadyNs)
    }

    /// - Parameter answer: begins with the head of the response: `HTTP/1.1 200 …`.
    func end(_ entry: Entry, _ answer: [UInt8]) {
        let status = answer.count >= 12 ? String(decoding: answer[9..<12], as: UTF8.self) : "-"
        let tenths = (scheduler.steadyNs - entry.beganNs) / 100_000
        logger.info("request", metadata: [
            "method": "\(entry.method)", "path": "\(entry.path.prefix(300))", "status": "\(status)",
            "ms": "\(tenths / 10).\(tenths % 10)", "peer": "\(entry.peer)",
        ])
    }
}

extension Server {
    /// Turns the log of requests on or off. From any thread.
    /// - Returns: whether it is on now.
    @discardableResult
    public func toggleRequestLog() -> Bool { records.log.toggle() }
}
