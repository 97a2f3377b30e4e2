public import JSONTree
import Synchronization

/// The part of a budget that one holder, such as a network address, may use. From any thread.
public final class MemoryShare: Sendable {
    /// Why bytes were refused.
    public enum Refusal: Error, Sendable {
        /// The process has no more.
        case process
        /// This share has no more.
        case share
    }

    public let budget: MemoryBudget
    /// Bytes that the holder may have of it; `Int.max` for all.
    public let limit: Int
    /// The share of several holders that what this one has counts in as well.
    private let wider: MemoryShare?
    private let held = Atomic<Int>(0)

    /// - Parameters:
    ///   - limit: bytes that the holder may have of the budget.
    ///   - wider: a share of which this one is a part.
    public init(of budget: MemoryBudget, limit: Int = .max, within wider: MemoryShare? = nil) {
        self.budget = budget
        self.limit = limit
        self.wider = wider
    }

    /// Bytes that the holder has.
    public var used: Int { held.load(ordering: .relaxed) }

    /// Takes bytes. Nil when they are taken, else why nothing was.
    public func reserve(_ bytes: Int, for purpose: MemoryBudget.Purpose) -> Refusal? {
        guard take(bytes) else {
            budget.recordShareRefusal()
            return .share
        }
        guard budget.reserve(bytes, for: purpose) else {
            forget(bytes)
            return .process
        }
        return nil
    }

    private func take(_ bytes: Int) -> Bool {
        guard held.add(bytes, ordering: .relaxed).newValue <= limit, wider?.take(bytes) ?? true else {
            held.subtract(bytes, ordering: .relaxed)
            return false
        }
        return true
    }

    /// Gives back bytes that were reserved.
    public func release(_ bytes: Int, from purpose: MemoryBudget.Purpose) {
        forget(bytes)
        budget.release(bytes, from: purpose)
    }

    /// Counts bytes in this share alone, until the result is released. For values that are shared by several holders and counted in
    /// the budget once. Nil when the share is exhausted.
    public func note(_ bytes: Int) -> MemoryNote? {
        guard take(bytes) else {
            budget.recordShareRefusal()
            return nil
        }
        return MemoryNote(self, bytes)
    }

    fileprivate func forget(_ bytes: Int) {
        held.subtract(bytes, ordering: .relaxed)
        wider?.forget(bytes)
    }
}

/// Bytes that are counted in a share and not in its budget.
public final class MemoryNote: Sendable {
    private let share: MemoryShare
    private let bytes: Int

    fileprivate init(_ share: MemoryShare, _ bytes: Int) {
        self.share = share
        self.bytes = bytes
    }

    deinit { share.forget(bytes) }
}

/// Bytes of a share that one thing holds: they are given back with the last reference to the lease. From any thread, one at a
/// time.
public final class MemoryLease: NodeHold {
    /// Bytes that are taken and given back together, so that small differences cost a comparison.
    public static let stepBytes = 64 << 10

    public let share: MemoryShare
    public let purpose: MemoryBudget.Purpose
    private let held = Atomic<Int>(0)
    private let why = Mutex<MemoryShare.Refusal?>(nil)

    public init(_ share: MemoryShare, for purpose: MemoryBudget.Purpose) {
        self.share = share
        self.purpose = purpose
    }

    deinit {
        let bytes = held.load(ordering: .relaxed)
        if bytes > 0 { share.release(bytes, from: purpose) }
    }

    /// Bytes that are held, in whole steps where they were taken by ``become(_:)``.
    public var bytes: Int { held.load(ordering: .relaxed) }

    /// Why bytes were refused last; nil while none were.
    public var refusal: MemoryShare.Refusal? { why.withLock { $0 } }

    /// Holds so many bytes from now on, rounded up to whole steps. False when they are refused; what was held before stays.
    public func become(_ bytes: Int) -> Bool {
        let wanted = (bytes + Self.stepBytes - 1) / Self.stepBytes * Self.stepBytes
        let now = held.load(ordering: .relaxed)
        if wanted > now { return grow(by: wanted - now) }
        // One step is kept, so that a size that alternates around a boundary does not reserve and release each time.
        if wanted < now - Self.stepBytes || (wanted == 0 && now > 0) { shrink(to: wanted) }
        return true
    }

    /// Holds so many bytes more. False when they are refused.
    public func grow(by bytes: Int) -> Bool {
        if let refusal = share.reserve(bytes, for: purpose) {
            why.withLock { $0 = refusal }
            return false
        }
        held.add(bytes, ordering: .relaxed)
        return true
    }

    /// Holds no more than so many bytes.
    public func shrink(to bytes: Int) {
        let surplus = held.load(ordering: .relaxed) - bytes
        guard surplus > 0 else { return }
        held.subtract(surplus, ordering: .relaxed)
        share.release(surplus, from: purpose)
    }
}
