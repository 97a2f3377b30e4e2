import Dispatch
import Limits
public import Logging
public import Scheduling
import Synchronization

/// Sends messages in the background, and retries while the mail server is unavailable. In memory only: messages contain codes in clear, which
/// are stored nowhere else. So a restart loses waiting messages, and their users must request new ones.
///
/// From any thread, without blocking. Logs only message kinds and domains, never an address, a link or a text.
public final class Mailer: Sendable {
    private let transport: any MailTransport
    private let scheduler: Scheduler
    /// Clients can cause these log lines, and so can other mail servers: both are throttled.
    private let refused: LogThrottle
    private let delayed: LogThrottle
    private let queue: Mutex<MailQueue>

    /// - Parameter scheduler: schedules retries and the expiry of messages.
    public init(
        _ transport: any MailTransport, _ settings: MailerSettings = MailerSettings(), logger: Logger, _ scheduler: Scheduler
    ) {
        self.transport = transport
        self.scheduler = scheduler
        refused = LogThrottle(logger, .error, scheduler)
        delayed = LogThrottle(logger, .warning, scheduler)
        queue = Mutex(MailQueue(settings))
    }

    /// Accepts a message for sending.
    /// - Parameter until: when the message becomes useless, as its link expires: ms of the steady clock.
    /// - Returns: false if too many are waiting.
    @discardableResult
    public func send(_ message: Message, until: Int64) -> Bool {
        let isAccepted = queue.withLock { $0.add(message, until: until, now: scheduler.steadyMs) }
        if isAccepted { sendDue() } else {
            refused.log("mail refused: too many messages wait for the mail server", Self.about(message))
        }
        return isAccepted
    }

    /// The number of messages waiting or being sent.
    public var count: Int { queue.withLock { $0.count } }

    private func sendDue() {
        for (id, message) in queue.withLock({ $0.startDue(now: scheduler.steadyMs) }) {
            Task {
                var fault: MailFault?
                do throws(MailFault) { try await transport.deliver(message) } catch { fault = error }
                finished(id, message, fault)
            }
        }
    }

    private func finished(_ id: Int, _ message: Message, _ fault: MailFault?) {
        let (outcome, next) = queue.withLock { ($0.finished(id, fault, now: scheduler.steadyMs), $0.nextDue) }
        var about = Self.about(message)
        if let fault {
            about["why"] = "\(fault.text)"
            switch outcome {
            case .gone: delayed.log("a letter was refused", about)
            case .late: refused.log("a letter could not be sent in time", about)
            case .waits(let ms): delayed.log("a letter could not be sent; next try in \(ms / 1000) s", about)
            }
        }
        if let next { scheduler.after(ms: next - scheduler.steadyMs, on: .global()) { [weak self] in self?.sendDue() } }
    }

    private static func about(_ message: Message) -> Logger.Metadata {
        ["letter": "\(message.label)", "domain": "\(message.to.domain)"]
    }
}

/// The queue of messages. A value type; callers pass the time.
///
///     added ─► due ─► being sent ─┬─► sent                      removed
///               ▲                 ├─► refused permanently       removed
///               └── after a wait ─┴─► failed, time is left      (expired: removed)
struct MailQueue {
    /// The result of one attempt.
    enum Outcome: Equatable {
        case gone
        /// The next attempt is due after this many ms.
        case waits(Int64)
        /// No further attempt, as its link expires before that.
        case late
    }

    private struct Item {
        var message: Message
        var dueAt: Int64
        /// When its link expires.
        var until: Int64
        var tries = 0
        var isUnderWay = false
    }

    private let settings: MailerSettings
    private var items: [Int: Item] = [:]
    private var nextID = 0

    init(_ settings: MailerSettings) { self.settings = settings }

    var count: Int { items.count }
    private var underWay: Int { items.values.reduce(0) { $0 + ($1.isUnderWay ? 1 : 0) } }

    /// Queues a message; false if the queue is full.
    mutating func add(_ message: Message, until: Int64, now: Int64) -> Bool {
        guard items.count < settings.waiting else { return false }
        items[nextID] = Item(message: message, dueAt: now, until: until)
        nextID += 1
        return true
    }

    /// Messages to send now, oldest first; marks them as being sent.
    mutating func startDue(now: Int64) -> [(id: Int, message: Message)] {
        let due = items.filter { !$0.value.isUnderWay && $0.value.dueAt <= now }.keys.sorted().prefix(max(0, settings.atOnce - underWay))
        return due.compactMap { id in
            items[id]?.isUnderWay = true
            return items[id].map { (id, $0.message) }
        }
    }

    /// When the next waiting message is due; nil if none waits, or if a running one must end first.
    var nextDue: Int64? { underWay < settings.atOnce ? items.values.filter { !$0.isUnderWay }.map(\.dueAt).min() : nil }

    mutating func finished(_ id: Int, _ fault: MailFault?, now: Int64) -> Outcome {
        guard var item = items.removeValue(forKey: id), case .later = fault else { return .gone }
        let wait = settings.waitsMs[min(item.tries, settings.waitsMs.count - 1)]
        guard now + wait < item.until else { return .late }
        item.tries += 1
        item.dueAt = now + wait
        item.isUnderWay = false
        items[id] = item
        return .waits(wait)
    }
}

public struct MailerSettings: Sendable, Equatable {
    /// Most messages in the queue.
    package var waiting = 1_000
    /// Most messages sent concurrently.
    package var atOnce = 4
    /// ms between attempts; the last one repeats. Not empty.
    package var waitsMs: [Int64] = [5_000, 15_000, 60_000, 120_000, 300_000, 600_000, 1_800_000]

    public init() {}
}

/// Settings of mail.
public struct MailSettings: Sendable {
    /// The mail server; without one a development hub prints messages and other hubs send none.
    public var smtp: SMTPSettings?
    /// The app's name, as users know it.
    public var app = "Vigla"
    /// The folder of the operator's own templates.
    public var templates: String?
    package var mailer = MailerSettings()

    public init() {}
}
