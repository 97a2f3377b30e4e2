public import JSONTree
import Synchronization

/// The part of a budget that one holder, such as a network address, may use. From any thread.
public final class MemoryShare: Sendable {
    /// Why bytes were refused.
    public enum Refusal: Error, Sendable {
        /// The process's budget is exhausted.
        case process
        /// This share is exhausted.
        case share
    }

    public let budget: MemoryBudget
    /// Bytes of the budget that the holder may use; `Int.max` for all.
    public let limit: Int
    /// A share of several holders, to which bytes of this one are charged as well.
    private let wider: MemoryShare?
    private let held = Atomic<Int>(0)

    /// - Parameters:
    ///   - limit: bytes that the holder may have of the budget.
    ///   - wider: a share that contains this one.
    public init(of budget: MemoryBudget, limit: Int = .max, within wider: MemoryShare? = nil) {
        self.budget = budget
        self.limit = limit
        self.wider = wider
    }

    /// Bytes in use.
    public var used: Int { held.load(ordering: .relaxed) }

    /// Reserves bytes. Nil on success, else why they were refused.
    public func reserve(_ bytes: Int, for purpose: MemoryBudget.Purpose) -> Refusal? {
        guard charge(bytes) else {
            budget.recordShareRefusal()
            return .share
        }
        guard budget.reserve(bytes, for: purpose) else {
            forget(bytes)
            return .process
        }
        return nil
    }

    private func charge(_ bytes: Int) -> Bool {
        guard held.add(bytes, ordering: .relaxed).newValue <= limit, wider?.charge(bytes) ?? true else {
            held.subtract(bytes, ordering: .relaxed)
            return false
        }
        return true
    }

    /// Releases reserved bytes.
    public func release(_ bytes: Int, from purpose: MemoryBudget.Purpose) {
        forget(bytes)
        budget.release(bytes, from: purpose)
    }

    /// Charges bytes to this share alone, until the result is released. For values shared by several holders and charged to the budget
    /// once. Nil when the share is exhausted.
    public func chargeAlone(_ bytes: Int) -> ShareCharge? {
        guard charge(bytes) else {
            budget.recordShareRefusal()
            return nil
        }
        return ShareCharge(self, bytes)
    }

    fileprivate func forget(_ bytes: Int) {
        held.subtract(bytes, ordering: .relaxed)
        wider?.forget(bytes)
    }
}

/// Bytes charged to a share but not to its budget.
public final class ShareCharge: Sendable {
    private let share: MemoryShare
    private let bytes: Int

    fileprivate init(_ share: MemoryShare, _ bytes: Int) {
        self.share = share
        self.bytes = bytes
    }

    deinit { share.forget(bytes) }
}

/// Bytes of a share held by one object: released with the last reference to the lease. From any thread, but not concurrently.
public final class MemoryLease: MemoryReservation {
    /// Bytes are reserved and released in these steps, so that small differences cost a comparison.
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

    /// Bytes held; whole steps where they were reserved by ``become(_:)``.
    public var bytes: Int { held.load(ordering: .relaxed) }

    /// Why bytes were last refused; nil if none were.
    public var refusal: MemoryShare.Refusal? { why.withLock { $0 } }

    /// Holds this many bytes, rounded up to whole steps. False when they are refused; the bytes held before are kept.
    public func become(_ bytes: Int) -> Bool {
        let wanted = (bytes + Self.stepBytes - 1) / Self.stepBytes * Self.stepBytes
        let now = held.load(ordering: .relaxed)
        if wanted > now { return grow(by: wanted - now) }
        // One step is kept, so that a size that alternates around a boundary does not reserve and release each time.
        if wanted < now - Self.stepBytes || (wanted == 0 && now > 0) { shrink(to: wanted) }
        return true
    }

    /// Holds this many more bytes. False when they are refused.
    public func grow(by bytes: Int) -> Bool {
        if let refusal = share.reserve(bytes, for: purpose) {
            why.withLock { $0 = refusal }
            return false
        }
        held.add(bytes, ordering: .relaxed)
        return true
    }

    /// Holds at most this many bytes.
    public func shrink(to bytes: Int) {
        let surplus = held.load(ordering: .relaxed) - bytes
        guard surplus > 0 else { return }
        held.subtract(surplus, ordering: .relaxed)
        share.release(surplus, from: purpose)
    }
}
