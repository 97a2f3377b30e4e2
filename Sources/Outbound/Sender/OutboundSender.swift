public import Dispatch
import Curl
public import Mail
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
    }

    private let state = Mutex(State())
    /// libcurl waits on its thread.
    private let queue = DispatchQueue(label: "vigla.outbound")
    private let mailer: NotificationMailer?
    private let settings: SendLoop.Settings

    /// - Parameters:
    ///   - mail: how mails leave; nil: mails are refused.
    ///   - now: the wall clock in ms since the epoch.
    public convenience init(
        _ configuration: OutboundConfiguration, mail: (any MailTransport)? = nil, now: @escaping @Sendable () -> Int64
    ) {
        self.init(configuration, mail: mail, now: now, lookup: SystemLookup.lookup)
    }

    init(
        _ configuration: OutboundConfiguration, mail: (any MailTransport)? = nil, now: @escaping @Sendable () -> Int64,
        lookup: @escaping HostLookup
    ) {
        settings = SendLoop.Settings(
            limits: configuration.limits, addresses: configuration.addresses, certificates: configuration.certificates, lookup: lookup,
            now: now)
        mailer = mail.map { NotificationMailer($0, configuration.limits) }
    }

    /// Sends a delivery.
    /// - Parameters:
    ///   - queue: where the completion is called.
    ///   - completion: called once, at the latest after about a minute.
    public func send(_ delivery: Delivery, on queue: DispatchQueue, _ completion: @escaping @Sendable (DeliveryOutcome) -> Void) {
        switch delivery {
        case .request(let request): put(.order(Order(request: request, queue: queue, completion: completion)))
        case .mail(let message):
            guard let mailer else {
                return queue.async { completion(.refused(reason: "no mail server is configured")) }
            }
            mailer.send(message) { outcome in queue.async { completion(outcome) } }
        }
    }

    /// Ends the requests under way: their completions are called with `later`, and so are those of later calls. Mails end by themselves.
    public func close() {
        state.withLock { state in
            state.isClosed = true
            state.multi?.wakeUp()
        }
    }

    /// Hands an event to the loop, and starts it if it does not run.
    func put(_ event: Event) {
        let starts = state.withLock { state in
            state.inbox.append(event)
            if let multi = state.multi {
                // One is enough for all that the loop has not taken yet.
                if state.inbox.count == 1 { multi.wakeUp() }
                return false
            }
            state.multi = CurlMulti(keptConnections: settings.limits.atOnce)
            return true
        }
        if starts { queue.async { self.run() } }
    }

    /// Runs the loop until there was no work for a while; then its connections are closed.
    private func run() {
        guard let multi = state.withLock({ $0.multi }) else { return }
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
