import Journal

/// One follower of a journal. Confined to the journal queue.
final class Follower: @unchecked Sendable {
    // Sendable: confined to the journal queue.
    let handle = JournalTail()
    private let receiver: @Sendable (TailEvent) -> Void
    /// The last commit that the follower has received.
    private(set) var position: UInt64

    init(from position: UInt64, _ receiver: @escaping @Sendable (TailEvent) -> Void) {
        self.position = position
        self.receiver = receiver
    }

    func receive(_ batch: JournalBatch) {
        if handle.isCancelled { return }
        position = batch.sequence
        receiver(.batch(batch))
    }

    func end(_ error: JournalError) {
        if !handle.isCancelled { receiver(.end(error)) }
    }
}
