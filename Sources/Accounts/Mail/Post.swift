import Dispatch
public import Logging
import Synchronization

/// Sends letters after the answer that announced them, and again when the mail server has no time. In memory only: letters
/// hold codes in clear, which are kept nowhere else, so a restart loses those that wait and their users ask again.
///
/// From any thread; nobody waits for it. Logs kinds of letters and domains, never an address, a link or a letter.
public final class Post: Sendable {
    private let carrier: any LetterCarrier
    private let clock: @Sendable () -> Int64
    private let after: @Sendable (Int64, @escaping @Sendable () -> Void) -> Void
    /// Letters are asked for by strangers, and what becomes of them is decided by others' servers.
    private let refused: LogThrottle
    private let delayed: LogThrottle
    private let queue: Mutex<PostQueue>

    /// - Parameters:
    ///   - now: a clock in ms that never steps.
    ///   - after: runs work so many ms later.
    public init(
        _ carrier: any LetterCarrier, _ settings: PostSettings = PostSettings(), logger: Logger, now: @escaping @Sendable () -> Int64,
        after: @escaping @Sendable (Int64, @escaping @Sendable () -> Void) -> Void
    ) {
        self.carrier = carrier
        clock = now
        self.after = after
        refused = LogThrottle(logger, .error)
        delayed = LogThrottle(logger, .warning)
        queue = Mutex(PostQueue(settings))
    }

    /// With Dispatch's timers.
    public convenience init(
        _ carrier: any LetterCarrier, _ settings: PostSettings = PostSettings(), logger: Logger, now: @escaping @Sendable () -> Int64
    ) {
        self.init(carrier, settings, logger: logger, now: now) { ms, work in
            DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(Int(ms)), execute: work)
        }
    }

    /// Takes a letter.
    /// - Parameter until: when it is of no use any more: the end of its link, by that clock.
    /// - Returns: false when too many are waiting.
    @discardableResult
    public func send(_ letter: Letter, until: Int64) -> Bool {
        let isTaken = queue.withLock { $0.add(letter, until: until, now: clock()) }
        if isTaken { turn() } else { refused.tell("a letter was not taken: too many wait for the mail server", Self.about(letter)) }
        return isTaken
    }

    /// Letters that wait or are under way.
    public var count: Int { queue.withLock { $0.count } }

    private func turn() {
        for (id, letter) in queue.withLock({ $0.take(now: clock()) }) {
            Task {
                var fault: LetterFault?
                do throws(LetterFault) { try await carrier.carry(letter) } catch { fault = error }
                finished(id, letter, fault)
            }
        }
    }

    private func finished(_ id: Int, _ letter: Letter, _ fault: LetterFault?) {
        let (outcome, next) = queue.withLock { ($0.finished(id, fault, now: clock()), $0.nextDue) }
        var about = Self.about(letter)
        if let fault {
            about["why"] = "\(fault.text)"
            switch outcome {
            case .gone: delayed.tell("a letter was refused", about)
            case .late: refused.tell("a letter could not be sent in time", about)
            case .waits(let ms): delayed.tell("a letter could not be sent; next try in \(ms / 1000) s", about)
            }
        }
        if let next { after(max(0, next - clock())) { [weak self] in self?.turn() } }
    }

    private static func about(_ letter: Letter) -> Logger.Metadata {
        ["letter": "\(letter.kind.rawValue)", "domain": "\(letter.to.domain)"]
    }
}
