import Synchronization

/// Bytes that the process may hold for its clients beside the trees themselves: what has come in part, what is being read into
/// values, what is being made for an answer, and old content that only a slow transfer still holds.
///
/// One for the whole process, so that many connections below their own limits cannot end it together. A request that would go over it is
/// refused before anything is allocated. From any thread; asked in steps of many kilobytes, never for each small message.
public final class MemoryBudget: Sendable {
    /// The purpose for which bytes are held.
    public enum Purpose: Int, CaseIterable, Sendable {
        /// Messages and bodies that have not come whole, or have and are not read.
        case incoming
        /// Values that are being made of them.
        case parsing
        /// Answers and events that are being encoded, or are encoded and not passed to a connection yet.
        case answers
        /// Old content that only a transfer under way holds: half of the budget at most, or slow readers would keep others from
        /// writing.
        case pinned
    }

    /// Bytes for all purposes together.
    public let limit: Int
    /// Bytes for old content.
    public var pinnedLimit: Int { limit / 2 }

    private struct Held {
        var total = 0
        /// The most since `takeFall` was last true.
        var peak = 0
        var parts = [Int](repeating: 0, count: Purpose.allCases.count)
        var refusals = 0
        var shareRefusals = 0

        mutating func take(_ bytes: Int, for purpose: Purpose) {
            total += bytes
            peak = max(peak, total)
            parts[purpose.rawValue] += bytes
        }
    }

    private let held = Mutex(Held())

    /// - Parameter limit: bytes for all purposes together.
    public init(_ limit: Int) { self.limit = limit }

    /// Takes bytes, or nothing when that would go over the limit.
    public func reserve(_ bytes: Int, for purpose: Purpose) -> Bool {
        held.withLock { held in
            guard held.total + bytes <= limit, purpose != .pinned || held.parts[purpose.rawValue] + bytes <= pinnedLimit else {
                held.refusals += 1
                return false
            }
            held.take(bytes, for: purpose)
            return true
        }
    }

    /// Takes bytes, over the limit if need be: for what lets others give theirs back. Until then all others are refused.
    func take(_ bytes: Int, for purpose: Purpose) { held.withLock { $0.take(bytes, for: purpose) } }

    /// Gives back bytes that were reserved.
    public func release(_ bytes: Int, from purpose: Purpose) {
        held.withLock { held in
            held.total -= bytes
            held.parts[purpose.rawValue] -= bytes
        }
    }

    /// Bytes that are held for a purpose.
    public func used(for purpose: Purpose) -> Int { held.withLock { $0.parts[purpose.rawValue] } }
    /// Bytes that are held.
    public var used: Int { held.withLock { $0.total } }
    /// How often bytes were refused because all were held.
    public var refusals: Int { held.withLock { $0.refusals } }
    /// How often bytes were refused because one holder had its whole share (``MemoryShare``).
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
