package import Synchronization

/// Operations that a journal has stored beside its log and that are not part of it: what becomes of them is decided later. A batch
/// that has them is stored as fast as a small one (`JournalBatch.staged`); when this is let go of without one, they are removed.
/// Until then they take their bytes in the data folder.
public final class JournalStage: Sendable {
    /// What its parts have in common; never used before in its journal.
    package let number: Int64
    /// Rows, at least one.
    package let parts: Int
    /// Of all rows.
    package let bytes: Int
    /// Whether a durable batch has them: they stay then.
    package let isSealed = Atomic(false)
    /// Holds no reference to the store: the last release may happen on the store's own queue.
    private let end: @Sendable (_ isSealed: Bool) -> Void

    package init(number: Int64, parts: Int, bytes: Int, end: @escaping @Sendable (_ isSealed: Bool) -> Void) {
        (self.number, self.parts, self.bytes, self.end) = (number, parts, bytes, end)
    }

    deinit { end(isSealed.load(ordering: .relaxed)) }
}
