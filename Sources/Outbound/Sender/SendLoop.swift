import Curl
import Scheduling

/// The sender's loop: takes requests from lookup to outcome. Confined to the sender's queue.
struct SendLoop {
    struct Settings: Sendable {
        let limits: SenderLimits
        let addresses: AddressGuard
        let certificates: String?
        let lookup: HostLookup
        /// `NameCache` bounds their number.
        let threads = LookupThreads()
        let scheduler: Scheduler
    }

    /// A request that has not been started.
    private struct Pending {
        let order: OutboundSender.Order
        var addresses: [IPAddress] = []
    }

    private let multi: CurlMulti
    private let settings: Settings
    private let startLookup: (NameCache.Lookup) -> Void
    private var queue: SendQueue
    private var names: NameCache
    private var nextID = 0
    private var pending: [Int: Pending] = [:]
    private var exchanges: [ObjectIdentifier: (exchange: Exchange, order: OutboundSender.Order)] = [:]
    /// ms of the steady clock, of the current turn.
    private var now: Int64
    private var sweepAt: Int64
    private var busyAt: Int64
    private var isClosed = false

    init(_ multi: CurlMulti, _ settings: Settings, startLookup: @escaping (NameCache.Lookup) -> Void) {
        self.multi = multi
        self.settings = settings
        self.startLookup = startLookup
        queue = SendQueue(settings.limits)
        names = NameCache(settings.limits)
        now = settings.scheduler.steadyMs
        busyAt = now
        sweepAt = now + Self.sweepMs
    }

    /// How often deadlines are checked, in ms.
    static let sweepMs: Int64 = 500
    /// The longest wait in ms. The sender wakes the loop in each `sweepMs`.
    private static let longestWaitMs = 60_000

    private var hasWork: Bool { !pending.isEmpty || !exchanges.isEmpty || names.lookups > 0 }

    /// Whether there was no work for a while, or the sender is closed.
    var isIdle: Bool { !hasWork && (isClosed || now - busyAt >= settings.limits.idleMs) }

    /// Blocks until something can be done, or the sender wakes it.
    func wait() { multi.wait(ms: Self.longestWaitMs) }

    /// Does what can be done without waiting.
    mutating func turn(_ events: [OutboundSender.Event], isClosed: Bool) {
        now = settings.scheduler.steadyMs
        self.isClosed = isClosed
        for event in events {
            switch event {
            case .order(let order): admit(order)
            case .lookup(let lookup, let addresses):
                for id in names.finished(lookup, addresses, now: now) { found(id, addresses) }
            }
        }
        if isClosed { endAll() }
        names.start(now: now).forEach(startLookup)
        start()
        finish()
        // An answer that has arrived counts, however late the loop comes to read it.
        if now >= sweepAt { sweep() }
        // Places that have become free.
        start()
        if hasWork { busyAt = now }
    }

    // MARK: From admission to the start

    private mutating func admit(_ order: OutboundSender.Order) {
        guard !isClosed else { return order.complete(.notAttempted(reason: OutboundSender.stopping)) }
        nextID += 1
        pending[nextID] = Pending(order: order)
        let host = order.request.url.host
        if let address = IPAddress(host) { return found(nextID, [address]) }
        switch names.find(host, for: nextID, now: now) {
        case .addresses(let addresses): found(nextID, addresses)
        case .wait: break
        case .full: drop(nextID, .notAttempted(reason: "too many names are being looked up"))
        }
    }

    /// Continues with the addresses of a request's host; nil if it has none.
    private mutating func found(_ id: Int, _ addresses: [IPAddress]?) {
        guard let order = pending[id]?.order else { return }
        guard let addresses else { return drop(id, .later(afterMs: nil, reason: "the endpoint's host name cannot be resolved")) }
        let (host, addressGuard) = (order.request.url.host, addressGuard(of: order.request))
        let permitted = addresses.filter { addressGuard.permits($0, host: host) }
        guard !permitted.isEmpty else { return drop(id, .refused(reason: AddressGuard.refusal)) }
        // A row may have been read under another configuration.
        guard addressGuard.permitsScheme(of: order.request.url) else {
            return drop(id, .refused(reason: DeviceFault.notSecure.description))
        }
        pending[id]?.addresses = permitted
        if !queue.add(id, host: host, now: now) { drop(id, .notAttempted(reason: "too many requests wait to be sent")) }
    }

    private func addressGuard(of request: OutboundRequest) -> AddressGuard {
        request.mayBePrivate ? settings.addresses.allowing(host: request.url.host) : settings.addresses
    }

    private mutating func drop(_ id: Int, _ outcome: DeliveryOutcome) {
        pending.removeValue(forKey: id)?.order.complete(outcome)
    }

    private mutating func start() {
        for place in queue.start() {
            guard let waiting = pending.removeValue(forKey: place.id) else {
                queue.finished(place, isPrompt: false)
                continue
            }
            let (request, addressGuard) = (waiting.order.request, addressGuard(of: waiting.order.request))
            let exchange = Exchange(
                request, place, addresses: waiting.addresses, permits: { addressGuard.permits($0, host: request.url.host) },
                certificates: settings.certificates, settings.limits, now: now)
            do throws(CurlFault) {
                try multi.add(exchange.transfer)
                exchanges[ObjectIdentifier(exchange.transfer)] = (exchange, waiting.order)
            } catch {
                queue.finished(place, isPrompt: false)
                waiting.order.complete(DeliveryOutcome(fault: error))
            }
        }
    }

    // MARK: The end

    private mutating func finish() {
        for (transfer, fault) in multi.perform() {
            guard let (exchange, order) = exchanges.removeValue(forKey: ObjectIdentifier(transfer)) else { continue }
            let isPrompt = exchange.isPrompt(fault, within: settings.limits.promptMs, now: settings.scheduler.steadyMs)
            queue.finished(exchange.place, isPrompt: isPrompt)
            order.complete(exchange.outcome(fault, now: settings.scheduler.wallMs))
        }
    }

    private mutating func sweep() {
        sweepAt = now + Self.sweepMs
        for (exchange, order) in exchanges.values where exchange.isOverdue(now: now) {
            exchanges[ObjectIdentifier(exchange.transfer)] = nil
            multi.remove(exchange.transfer)
            queue.finished(exchange.place, isPrompt: false)
            order.complete(exchange.outcome(.timeout, now: settings.scheduler.wallMs))
        }
        for id in queue.expired(now: now) { drop(id, .notAttempted(reason: "its host had no free place in time")) }
        for (id, isRunning) in names.expired(now: now) {
            drop(id, isRunning ? .later(afterMs: nil, reason: "the endpoint's host name was not resolved in time")
                : .notAttempted(reason: "too many names are being looked up"))
        }
    }

    private mutating func endAll() {
        for (exchange, order) in exchanges.values {
            multi.remove(exchange.transfer)
            queue.finished(exchange.place, isPrompt: false)
            order.complete(.later(afterMs: nil, reason: OutboundSender.stopping))
        }
        exchanges = [:]
        for id in pending.keys { drop(id, .notAttempted(reason: OutboundSender.stopping)) }
    }
}
