import Dispatch
import HubEngine
import JSONTree
import Logging
import Scheduling
import SecurityRules
import Synchronization

/// Logs why the rules refused a request: for the operator, never for the client. It samples, so that a client with constant refusals
/// neither fills the disk nor costs time.
final class RefusalLog: Sendable {
    /// Bytes of the values of one line.
    static let lineBytes = 4_000
    /// Characters of one value.
    static let valueCharacters = 60
    /// Characters of one place.
    private static let pathCharacters = 300

    private let perSecond: Int
    private let scheduler: Scheduler
    private let logger: Logger
    private let sample = Mutex(Sample())
    /// Queue on which explanations are evaluated, one after the other.
    private let queue = DispatchQueue(label: "vigla.refusals", qos: .utility)

    private struct Sample {
        var second: Int64 = 0
        var logged = 0
        /// Refusals since the last line that were not logged.
        var suppressed = 0
        /// Lines being written.
        var pending = 0
    }

    init(perSecond: Int, _ scheduler: Scheduler, logger: Logger) {
        self.perSecond = perSecond
        self.scheduler = scheduler
        self.logger = logger
    }

    /// The listener of a namespace's refusals.
    func listener(_ namespace: String) -> any RefusalListener { Listener(log: self, namespace: namespace) }

    private struct Listener: RefusalListener {
        let log: RefusalLog
        let namespace: String

        func wantsRefusal(now: Int64) -> Bool { log.admit(now: now) }

        func refused(_ request: RuledRequest, _ question: RuleQuestion) {
            log.queue.async {
                let reason = question.budget.map { "over the budget of \($0)" } ?? RefusalLog.rules(question.explained())
                log.write(request, RefusalLog.paths(question.operation), reason, namespace)
            }
        }
    }

    /// Logs a write that was refused before its content was read: no content could make the rules allow it. From any thread.
    func refusedUnread(_ path: Path, _ namespace: String) {
        guard admit(now: scheduler.wallMs) else { return }
        queue.async { [self] in
            write(.write, Self.paths(.write([path])), "no rule could grant it for any value", namespace)
        }
    }

    /// Whether one more line may be logged in this second. Lines still being written count against the limit.
    func admit(now: Int64) -> Bool {
        sample.withLock { sample in
            if now / 1000 != sample.second { (sample.second, sample.logged) = (now / 1000, 0) }
            guard sample.logged < perSecond, sample.pending < perSecond else {
                sample.suppressed += 1
                return false
            }
            sample.logged += 1
            sample.pending += 1
            return true
        }
    }

    /// Returns when every line that was begun is written.
    func flush() { queue.sync {} }

    private func write(_ request: RuledRequest, _ paths: String, _ rules: @autoclosure () -> String, _ namespace: String) {
        let suppressed = sample.withLock { sample in
            defer { (sample.suppressed, sample.pending) = (0, sample.pending - 1) }
            return sample.suppressed
        }
        var metadata: Logger.Metadata = [
            "namespace": "\(namespace)", "operation": "\(request.rawValue)", "path": "\(paths)", "rules": "\(rules())",
        ]
        if suppressed > 0 { metadata["unlogged"] = "\(suppressed)" }
        logger.notice("refused by the rules", metadata: metadata)
    }

    private static func paths(_ operation: RuleQuestion.Operation) -> String {
        switch operation {
        case .read(let path, _), .count(let path, _): shortened(path.description, to: pathCharacters)
        case .write(let paths):
            paths.prefix(5).map { shortened($0.description, to: pathCharacters) }.joined(separator: ", ")
                + (paths.count > 5 ? ", … (\(paths.count))" : "")
        }
    }

    /// The evaluated rules that refused, the deciding one first, with the values of their sub-expressions.
    static func rules(_ trace: RuleTrace) -> String {
        let follower = trace.refusedWrite.map { "\($0.path) follows by \($0.rule)" }
        var text = trace.unmet ?? trace.fault.map { "\($0)" } ?? follower ?? ""
        for step in trace.steps.reversed() where step.outcome != .allowed {
            guard text.utf8.count < lineBytes else { return text + "; …" }
            if !text.isEmpty { text += "; " }
            text += "\(step.source.line):\(step.source.column) \(step.pattern)\(step.kind.rawValue)"
            switch step.outcome {
            case .failed(let reason, _): text += " failed: \(reason)"
            default: text += " is false"
            }
            for (i, part) in step.parts.enumerated() {
                guard text.utf8.count < lineBytes else {
                    text += ", …"
                    break
                }
                text += (i == 0 ? " (" : ", ") + "\(shortened(part.text)) = \(value(part.value))"
            }
            if !step.parts.isEmpty { text += ")" }
        }
        return text.isEmpty ? "no rule grants it" : text
    }

    private static func value(_ value: RuleTrace.PartValue) -> String {
        guard case .string(let text) = value else { return "\(value)" }
        return "\"\(shortened(text))\""
    }

    private static func shortened(_ text: String, to characters: Int = valueCharacters) -> String {
        let kept = text.unicodeScalars.prefix(characters)
        return kept.endIndex < text.unicodeScalars.endIndex ? String(kept) + "…" : text
    }
}
