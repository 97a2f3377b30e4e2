public import Dispatch
import Curl
public import Mail
public import Scheduling
import Synchronization

/// Sends requests, and mails, with many at once. From any thread, without blocking.
///
///     send ─► inbox ─► loop (one thread, while there is work): lookup ─► guard ─► queue ─► exchange ─► completion on the caller's queue
///
/// Each completion is called exactly once. Nothing is stored: whoever sends keeps what is to be sent again.
public final class OutboundSender: Sendable {
    typealias Completion = @Sendable (DeliveryOutcome) -> Void

    /// A request on its way to the loop.
    struct Order: Sendable {
        let request: OutboundRequest
        let queue: DispatchQueue
        let completion: Completion

        func complete(_ outcome: DeliveryOutcome) { queue.async { [completion] in completion(outcome) } }
    }

    /// What the loop receives.
    enum Event: Sendable {
        case order(Order)
        case lookup(NameCache.Lookup, [IPAddress]?)
    }

    private struct State {
        var inbox: [Event] = []
        /// While the loop runs: it waits inside.
        var multi: CurlMulti?
        var isClosed = false
        /// Requests without an outcome, and the bytes of their bodies.
        var unfinished = 0
        var bytes = 0

        /// The number of requests that are accepted now. A single one always is, whatever its size.
        func capacity(_ limits: SenderLimits) -> Int {
            isClosed || bytes >= limits.waitingBytes ? 0 : max(0, limits.waiting + limits.atOnce - unfinished)
        }
    }

    private let state = Mutex(State())
    /// libcurl waits on its thread, until something happens or the scheduler wakes it.
    private let queue = DispatchQueue(label: "vigla.outbound")
    private let mailer: NotificationMailer?
    private let settings: SendLoop.Settings

    /// - Parameters:
    ///   - mail: how mails leave; nil: mails are refused.
    ///   - scheduler: its steady clock decides all timeouts; libcurl has none of its own.
    public convenience init(_ configuration: OutboundConfiguration, mail: (any MailTransport)? = nil, scheduler: Scheduler) {
        self.init(configuration, mail: mail, scheduler: scheduler, lookup: SystemLookup.lookup)
    }

    init(
        _ configuration: OutboundConfiguration, mail: (any MailTransport)? = nil, scheduler: Scheduler, lookup: @escaping HostLookup
    ) {
        settings = SendLoop.Settings(
            limits: configuration.limits, addresses: configuration.addresses, certificates: configuration.certificates, lookup: lookup,
            scheduler: scheduler)
        mailer = mail.map { NotificationMailer($0, configuration.limits) }
    }

    /// How many more requests can wait now; more end with `notAttempted`, and so do those beyond the limits of one host and of bytes. Each
    /// completion is an occasion to ask again. 0 after `close`.
    public var capacity: Int { state.withLock { $0.capacity(settings.limits) } }

    /// How many more mails can wait now. 0 after `close`, and without a mail server.
    public var mailCapacity: Int { mailer?.capacity ?? 0 }

    /// Sends a delivery.
    /// - Parameters:
    ///   - queue: where the completion is called.
    ///   - completion: called once. For a request within 47 s: 5 s for its name, 30 s for a place, 10 s for the exchange, and up to 0.5 s
    ///     for each of them, because deadlines are checked twice a second. With a webhook's own timeout of 60 s: within 97 s. For a mail
    ///     there is no such bound: 4 are sent at once, each for as long as its transport takes, and up to 1,000 wait.
    public func send(_ delivery: Delivery, on queue: DispatchQueue, _ completion: @escaping @Sendable (DeliveryOutcome) -> Void) {
        switch delivery {
        case .request(let request): send(request, on: queue, completion)
        case .mail(let message):
            guard let mailer else {
                return queue.async { completion(.refused(reason: "no mail server is configured")) }
            }
            mailer.send(message) { outcome in queue.async { completion(outcome) } }
        }
    }

    private func send(_ request: OutboundRequest, on queue: DispatchQueue, _ completion: @escaping Completion) {
        let count = request.body.count
        let refusal = state.withLock { state -> String? in
            if state.isClosed { return Self.stopping }
            guard state.capacity(settings.limits) > 0, state.bytes == 0 || state.bytes + count <= settings.limits.waitingBytes else {
                return "too many requests wait to be sent"
            }
            state.unfinished += 1
            state.bytes += count
            return nil
        }
        if let refusal { return queue.async { completion(.notAttempted(reason: refusal)) } }
        put(.order(Order(request: request, queue: queue) { [self] outcome in
            state.withLock { state in
                state.unfinished -= 1
                state.bytes -= count
            }
            completion(outcome)
        }))
    }

    static let stopping = "the hub is stopping"

    /// Ends the requests under way with `later`, as their receivers may have them, and those that wait, with mails that wait and all later
    /// deliveries, with `notAttempted`. Mails that are being sent end by themselves.
    public func close() {
        mailer?.close()
        state.withLock { state in
            state.isClosed = true
            state.multi?.wakeUp()
        }
    }

    /// Hands an event to the loop, and starts it if it does not run.
    func put(_ event: Event) {
        let (starts, isRefused) = state.withLock { state -> (Bool, Bool) in
            if let multi = state.multi {
                state.inbox.append(event)
                // One is enough for all that the loop has not taken yet.
                if state.inbox.count == 1 { multi.wakeUp() }
                return (false, false)
            }
            guard let multi = CurlMulti(keptConnections: settings.limits.atOnce) else { return (false, true) }
            state.inbox.append(event)
            state.multi = multi
            return (true, false)
        }
        if starts { queue.async { self.run() } }
        if isRefused, case .order(let order) = event { order.complete(.notAttempted(reason: "libcurl cannot be set up")) }
    }

    /// Runs the loop until there was no work for a while; then its connections are closed.
    private func run() {
        guard let multi = state.withLock({ $0.multi }) else { return }
        // The scheduler's clock, not the one by which libcurl waits, decides when a deadline has passed.
        let ticks = settings.scheduler.every(ms: SendLoop.sweepMs, on: .global()) { multi.wakeUp() }
        defer { ticks.cancel() }
        var loop = SendLoop(multi, settings) { [unowned self] lookup in
            settings.threads.run { [self] in put(.lookup(lookup, settings.lookup(lookup.host))) }
        }
        while true {
            let (events, isClosed) = state.withLock { state in (exchange(&state.inbox, with: []), state.isClosed) }
            loop.turn(events, isClosed: isClosed)
            let ends = loop.isIdle && state.withLock { state in
                guard state.inbox.isEmpty else { return false }
                state.multi = nil
                return true
            }
            if ends { return }
            loop.wait()
        }
    }
}
