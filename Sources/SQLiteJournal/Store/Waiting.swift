import Journal

/// The items that wait for the journal queue.
struct Waiting {
    struct Item: Sendable {
        /// Empty for what concerns the whole store.
        let namespace: String
        let work: Work
        let completion: @Sendable (Result<Void, JournalError>) -> Void

        /// Takes from `room` what it is estimated to write, in bytes; false when that is more. O(room)
        func takes(from room: inout Int) -> Bool {
            switch work {
            case .append(let batch), .seal(let batch): return batch.takes(from: &room)
            case .put(_, let value): room -= value?.count ?? 0
            case .step(.chunks(let run)): room -= run.bytes
            case .slice(let staging): room -= staging.bytes
            case .step, .snapshot, .truncate, .taking, .close: break
            }
            return room >= 0
        }

        /// Items with the same one keep their order. Steps follow from each other and have theirs without.
        var lane: String {
            switch work {
            case .step: "step/" + namespace
            case .slice: "slice/"
            case .seal: "seal/" + namespace
            default: namespace
            }
        }
    }

    enum Work: Sendable {
        case append(JournalBatch)
        /// A setting; nil removes it.
        case put(name: String, value: [UInt8]?)
        /// Some rows of a stage.
        case slice(Staging)
        /// A large batch whose operations have been stored, but for some; what follows it waits.
        case seal(JournalBatch)
        /// A tree as it is after everything appended before.
        case snapshot(JournalSnapshot)
        /// A step of the store's own.
        case step(JournalStore.SnapshotStep)
        case truncate(upTo: UInt64)
        /// What another folder has exported.
        case taking(NamespaceImport.Step)
        case close

        /// Whether a journal's end lets it pass: settings of a namespace outlive its journal, and so does a snapshot under way.
        var outlivesJournal: Bool {
            switch self {
            case .put, .step, .slice, .seal: true
            default: false
            }
        }

        /// Whether the store's end lets it pass: what was appended before is stored, in however many slices.
        func outlivesStore(isLate: Bool) -> Bool {
            switch self {
            case .slice(let staging): staging.isOfBatch && !isLate
            case .seal: true
            default: false
            }
        }

        /// Whether it is part of a transaction, and may share it.
        var isStored: Bool {
            switch self {
            case .append, .put, .slice, .seal, .step, .truncate, .taking: true
            case .snapshot, .close: false
            }
        }

        /// Whether it goes in a transaction alone: it fills one, and the commits before it need not wait for that.
        var isAlone: Bool {
            switch self {
            case .slice, .step(.chunks), .step(.remove), .taking: true
            default: false
            }
        }

        /// The batch that becomes durable with it.
        var batch: JournalBatch? {
            switch self {
            case .append(let batch), .seal(let batch): batch
            default: nil
            }
        }

        /// Commits that become durable with it.
        var commits: UInt64 {
            if case .taking(let step) = self { return step.commits }
            return batch.map { $0.sequence - $0.expectedLast } ?? 0
        }

        /// Where a crash test may end the process: before the commit with this in it is made, and after.
        var faultPoints: (before: FaultPoint?, after: FaultPoint?) {
            switch self {
            case .step(.chunks): (nil, .snapshotChunk)
            case .step(.take): (.beforeSwitch, .afterSwitch)
            case .step(.remove): (nil, .truncate)
            case .slice: (nil, .slice)
            case .append(let batch), .seal(let batch): (batch.staged.isEmpty ? nil : .beforeSeal, nil)
            case .taking(.chunks): (nil, .snapshotChunk)
            case .taking(.take): (.beforeSwitch, .afterSwitch)
            default: (nil, nil)
            }
        }
    }

    var items: [Item] = []
    /// Whether a commit that takes all items is scheduled, or will be by the thread that holds one.
    var isScheduled = false
    /// A thread has appended without scheduling that commit, and is about to (`JournalStore.commitHeld`).
    var isHeld = false
    /// Pieces of work that were put on the journal queue and have not ended.
    var pending = 0
    /// The store.
    var isClosed = false
    /// Whether large batches under way are given up with it.
    var isLate = false
    /// Single namespaces.
    var closed: Set<String> = []
}
