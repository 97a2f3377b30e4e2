import Synchronization

/// Memory that the process may hold for its clients in addition to the trees. It covers partial messages, values being parsed, answers
/// being encoded, and old content that only a slow transfer still holds.
///
/// There is one for the whole process, so that many connections below their own limits cannot exhaust its memory together. A request that
/// would exceed it is refused before anything is allocated. From any thread; used in steps of many kilobytes, never per small message.
public final class MemoryBudget: Sendable {
    /// The purpose for which bytes are held.
    public enum Purpose: Int, CaseIterable, Sendable {
        /// Messages and bodies that are incomplete or not parsed yet.
        case incoming
        /// Values being parsed from them.
        case parsing
        /// Answers and events being encoded, or encoded and not yet passed to a connection.
        case answers
        /// Old content that only a running transfer holds: half of the budget at most, or slow readers would block other clients' writes.
        case pinned
    }

    /// Bytes for all purposes together.
    public let limit: Int
    /// Bytes for `pinned`.
    public var pinnedLimit: Int { limit / 2 }

    private struct Held {
        var total = 0
        /// The maximum since `takeFall` was last true.
        var peak = 0
        var parts = [Int](repeating: 0, count: Purpose.allCases.count)
        var refusals = 0
        var shareRefusals = 0

        mutating func charge(_ bytes: Int, for purpose: Purpose) {
            total += bytes
            peak = max(peak, total)
            parts[purpose.rawValue] += bytes
        }
    }

    private let held = Mutex(Held())

    /// - Parameter limit: bytes for all purposes together.
    public init(_ limit: Int) { self.limit = limit }

    /// Reserves bytes; false if that would exceed the limit.
    public func reserve(_ bytes: Int, for purpose: Purpose) -> Bool {
        held.withLock { held in
            guard held.total + bytes <= limit, purpose != .pinned || held.parts[purpose.rawValue] + bytes <= pinnedLimit else {
                held.refusals += 1
                return false
            }
            held.charge(bytes, for: purpose)
            return true
        }
    }

    /// Reserves bytes even beyond the limit, for work that lets others release theirs. Until then all others are refused.
    func charge(_ bytes: Int, for purpose: Purpose) { held.withLock { $0.charge(bytes, for: purpose) } }

    /// Releases reserved bytes.
    public func release(_ bytes: Int, from purpose: Purpose) {
        held.withLock { held in
            held.total -= bytes
            held.parts[purpose.rawValue] -= bytes
        }
    }

    /// Bytes held for a purpose.
    public func used(for purpose: Purpose) -> Int { held.withLock { $0.parts[purpose.rawValue] } }
    /// Bytes held for all purposes.
    public var used: Int { held.withLock { $0.total } }
    /// How often bytes were refused because the budget was exhausted.
    public var refusals: Int { held.withLock { $0.refusals } }
    /// How often bytes were refused because a holder's share was exhausted (``MemoryShare``).
    public var shareRefusals: Int { held.withLock { $0.shareRefusals } }

    /// Whether usage has fallen by more than so many bytes below its peak, so that returning freed memory to the system is worth it.
    /// If so, the peak is reset to the current usage.
    public func takeFall(over bytes: Int) -> Bool {
        held.withLock { held in
            guard held.peak - held.total > bytes else { return false }
            held.peak = held.total
            return true
        }
    }

    func recordShareRefusal() { held.withLock { $0.shareRefusals += 1 } }
}
