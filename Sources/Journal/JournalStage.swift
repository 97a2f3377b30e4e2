package import Synchronization

/// Operations that a journal has stored beside its log, and that are not part of the log yet. A batch that contains them is stored
/// as fast as a small one (`JournalBatch.staged`). If the stage is released without such a batch, they are removed. Until then they
/// occupy space in the data folder.
public final class JournalStage: Sendable {
    /// Identifies the stage; its journal never uses a number twice.
    package let number: Int64
    /// Rows, at least one.
    package let parts: Int
    /// Size of all rows.
    package let bytes: Int
    /// Whether a durable batch contains the operations, so that they are kept.
    package let isSealed = Atomic(false)
    /// Holds no reference to the store: the last release may happen on the store's own queue.
    private let end: @Sendable (_ isSealed: Bool) -> Void

    package init(number: Int64, parts: Int, bytes: Int, end: @escaping @Sendable (_ isSealed: Bool) -> Void) {
        (self.number, self.parts, self.bytes, self.end) = (number, parts, bytes, end)
    }

    deinit { end(isSealed.load(ordering: .relaxed)) }
}
