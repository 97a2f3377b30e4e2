import Dispatch
import Journal
import Synchronization

/// Stores operations outside the log, in slices between the commits: stages that a journal requests, and batches that are too large for
/// one transaction. Confined to the journal queue.
///
/// ```
/// begin: a large batch ─► stageRest ─► stage ─► advance: encode, commit a slice … ─┐
///                            ▲   └─ the rest is small: the batch goes to the log    │
///                            └──────────────────────────────────────────────────────┘
/// ```
final class Stages: @unchecked Sendable {
    // Sendable: the variables are confined to the journal queue; the rest is immutable.

    /// Queue on which slices are encoded.
    let encoding = DispatchQueue(label: "vigla.journal.encoding", qos: .utility)
    private let journal: JournalQueue
    private let registry: Registry
    private let remover: Remover
    private let settings: JournalStore.Settings
    /// Namespaces whose next batch is large and being stored; the items behind it wait. `JournalQueue.background` is entered for each.
    private var storing: Set<String> = []
    private var nextNumber: Int64

    /// - Parameter next: the number of the next stage; higher than those of all stored ones.
    init(_ journal: JournalQueue, _ registry: Registry, _ remover: Remover, _ settings: JournalStore.Settings, next: Int64) {
        self.journal = journal
        self.registry = registry
        self.remover = remover
        self.settings = settings
        nextNumber = next
    }

    /// Stores operations outside the log.
    /// - Parameters:
    ///   - starts: where commits begin between the operations.
    ///   - completion: on the journal queue or, when the store is closed, on another.
    func stage(
        _ operations: ArraySlice<JournalOperation>, starts: ArraySlice<Int> = [], isOfBatch: Bool,
        _ completion: @escaping @Sendable (Result<JournalStage, JournalError>) -> Void
    ) {
        journal.assertCurrent()
        let staging = Staging(
            operations, starts: starts, number: nextNumber, sliceBytes: settings.sliceBytes, isOfBatch: isOfBatch, completion)
        nextNumber += 1
        remover.keepStage(staging.number)
        advance(staging)
    }

    /// Encodes the next slice and enqueues it for a commit.
    private func advance(_ staging: Staging) {
        encoding.async(execute: journal.retaining { [self] in
            guard staging.encodeNext() else {
                let (number, parts, bytes) = (staging.number, staging.count, staging.total)
                let stage = JournalStage(number: number, parts: parts, bytes: bytes) { [weak self] isSealed in
                    self?.end(stage: number, isUsed: isSealed)
                }
                return journal.run { _ in staging.completion(.success(stage)) }
            }
            journal.enqueue(Waiting.Item(namespace: "", work: .slice(staging)) { [self] result in
                guard case .failure(let error) = result else { return advance(staging) }
                end(stage: staging.number, isUsed: false)
                // On a late close the store refuses the slice on another queue and waits for the end of the batch.
                if staging.isOfBatch, error == .closed { return journal.run { _ in staging.completion(.failure(error)) } }
                staging.completion(.failure(error))
            })
        })
    }

    /// Ends a released stage. On any queue.
    private func end(stage number: Int64, isUsed: Bool) {
        journal.run { [weak self] _ in
            guard let self else { return }
            remover.releaseStage(number)
            if !isUsed, !journal.isClosed { remover.searchUnusedParts() }
        }
    }

    /// Ends the stages of a batch that has become durable.
    func appended(_ batch: JournalBatch) {
        for part in batch.staged {
            part.stage.isSealed.store(true, ordering: .relaxed)
            // From now on the batch keeps its parts alive.
            remover.releaseStage(part.stage.number)
        }
    }

    // MARK: Large batches

    /// Whether a large batch is being stored.
    var isStoring: Bool { !storing.isEmpty }

    /// Whether a large batch of the namespace is being stored.
    func isStoring(_ namespace: String) -> Bool { storing.contains(namespace) }

    /// Whether an item is a batch that must be stored in slices. O(`sliceBytes`)
    func isLarge(_ item: Waiting.Item) -> Bool {
        // Refuse a batch that does not follow the last one before storing it in slices.
        guard case .append(let batch) = item.work, batch.expectedLast == registry.last(of: item.namespace) else { return false }
        return isLarge(batch)
    }

    private func isLarge(_ batch: JournalBatch) -> Bool {
        var room = settings.sliceBytes
        return !batch.takes(from: &room)
    }

    /// Begins to store a large batch once everything of its namespace before it is durable; false when the batch does not follow it.
    func begin(_ batch: JournalBatch, _ item: Waiting.Item) -> Bool {
        journal.assertCurrent()
        let last = registry.last(of: item.namespace)
        guard batch.expectedLast == last, batch.sequence > last, Int64(exactly: batch.sequence) != nil else {
            item.completion(.failure(journal.misplaced(batch, last)))
            return false
        }
        storing.insert(item.namespace)
        journal.background.enter()
        stageRest(of: batch, item)
        return true
    }

    /// Stages the unstored runs one by one until the rest is small; then the batch goes to the log.
    private func stageRest(of batch: JournalBatch, _ item: Waiting.Item) {
        guard isLarge(batch), let run = batch.runs.first(where: { $0.stage == nil && !$0.operations.isEmpty }) else {
            return journal.enqueue(Waiting.Item(namespace: item.namespace, work: .seal(batch)) { [self] result in finish(item, result) })
        }
        // The rows before and after the run contain the commits that begin at its ends.
        let starts = run.starts.drop { $0 <= run.operations.startIndex }.prefix { $0 < run.operations.endIndex }
        stage(run.operations, starts: starts, isOfBatch: true) { [self] result in
            switch result {
            case .success(let stage):
                var batch = batch
                batch.staged.append(.init(run.operations.indices, stage))
                batch.staged.sort { $0.range.lowerBound < $1.range.lowerBound }
                stageRest(of: batch, item)
            case .failure(let error): finish(item, .failure(error))
            }
        }
    }

    /// Completes a large batch.
    private func finish(_ item: Waiting.Item, _ result: Result<Void, JournalError>) {
        journal.assertCurrent()
        storing.remove(item.namespace)
        if case .failure = result { remover.searchUnusedPartsWithNextCommit() }
        item.completion(result)
        journal.background.leave()
    }
}
