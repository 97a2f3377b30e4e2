import Curl
import Dispatch
import Mail
import Scheduling
import Synchronization
import TestSupport
import Testing

@testable import Outbound

/// A sender, and the outcomes of what it sends. No time passes for it, except by `clock`; its exchanges are real.
final class SenderHarness: Sendable {
    let sender: OutboundSender
    let clock = FakeClock(ms: Samples.now)
    private let queue = DispatchQueue(label: "test.outcomes")
    private let outcomes = Mutex<[Int: [DeliveryOutcome]]>([:])
    private let next = Mutex(0)

    /// - Parameters:
    ///   - allowing: what may be private.
    ///   - lookup: every name is this machine, if there is none.
    convenience init(
        allowing: [String] = ["127.0.0.1"], certificates: String? = nil, mail: (any MailTransport)? = nil,
        _ change: (inout SenderLimits) -> Void = { _ in }
    ) throws {
        try self.init(
            allowing: allowing, certificates: certificates, mail: mail, lookup: { _ in [IPAddress(v4: 0x7F00_0001)] }, change)
    }

    /// - Parameter scheduler: another clock than `clock`.
    init(
        allowing: [String] = ["127.0.0.1"], certificates: String? = nil, mail: (any MailTransport)? = nil, scheduler: Scheduler? = nil,
        lookup: @escaping HostLookup, _ change: (inout SenderLimits) -> Void = { _ in }
    ) throws {
        var configuration = OutboundConfiguration()
        try configuration.set(privateHosts: allowing)
        configuration.certificates = certificates
        configuration.limits.reuseSeconds = Int(Int32.max)
        change(&configuration.limits)
        sender = OutboundSender(configuration, mail: mail, scheduler: scheduler ?? clock.scheduler, lookup: lookup)
    }

    deinit { sender.close() }

    /// Sends a request, and returns its number.
    @discardableResult
    func send(
        _ url: String, _ service: OutboundRequest.Service = .push, fields: [(name: String, value: String)] = [], body: String = "x",
        mayBePrivate: Bool = false, timeoutMs: Int? = nil
    ) throws -> Int {
        send(.request(OutboundRequest(
            service, try #require(CurlURL(url)), fields: fields, body: Array(body.utf8), mayBePrivate: mayBePrivate, timeoutMs: timeoutMs)))
    }

    @discardableResult
    func send(_ delivery: Delivery) -> Int {
        let id = next.withLock { $0 += 1; return $0 }
        sender.send(delivery, on: queue) { [weak self] outcome in
            guard let self else { return }
            dispatchPrecondition(condition: .onQueue(queue))
            outcomes.withLock { $0[id, default: []].append(outcome) }
        }
        return id
    }

    /// The outcomes so far by number; each request has one.
    var all: [Int: [DeliveryOutcome]] { outcomes.withLock { $0 } }
    var count: Int { all.count }

    /// Waits for the outcome of a request.
    func outcome(_ id: Int) async throws -> DeliveryOutcome {
        #expect(await becomes { all[id] != nil })
        return try #require(all[id]?.first)
    }

    /// Waits until the sender has done what it can with all that was sent before, at the time of the clock. Needs no place: the address is
    /// refused, first thing in a turn. So the second answer says that the first one's turn is over.
    func settle() async throws {
        for _ in 0..<2 { #expect(try await deliver("https://10.0.0.1/") == .refused(reason: AddressGuard.refusal)) }
    }

    /// Waits for what was sent, and lets a time pass after which a limit of so many ms is certainly noticed.
    func pass(ms: Int) async throws {
        try await settle()
        clock.advance(ms: Int64(ms) + 2 * SendLoop.sweepMs)
    }

    /// Sends a request and waits for its outcome.
    func deliver(_ url: String, _ service: OutboundRequest.Service = .push, mayBePrivate: Bool = false) async throws -> DeliveryOutcome {
        try await outcome(send(url, service, mayBePrivate: mayBePrivate))
    }
}

extension DeliveryOutcome {
    var isLater: Bool { if case .later = self { true } else { false } }
    var isRefused: Bool { if case .refused = self { true } else { false } }
}

/// Blocks lookups until it is opened, then none.
final class DispatchSemaphoreBox: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)

    func wait() {
        semaphore.wait()
        semaphore.signal()
    }

    func open() { semaphore.signal() }
}
