import Journal

/// The items that wait for the journal queue.
struct Waiting {
    struct Item: Sendable {
        /// Empty for items that concern the whole store.
        let namespace: String
        let work: Work
        /// Number of the journal's removals when it was opened, for items of a journal; see `Waiting.removals`.
        var removals: Int?
        let completion: @Sendable (Result<Void, JournalError>) -> Void

        init(
            namespace: String, work: Work, removals: Int? = nil, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
        ) {
            (self.namespace, self.work, self.removals, self.completion) = (namespace, work, removals, completion)
        }

        /// Subtracts the estimated bytes of the item from `room`; false when they exceed it. O(room)
        func takes(from room: inout Int) -> Bool {
            switch work {
            case .append(let batch), .seal(let batch): return batch.takes(from: &room)
            case .put(_, let value): room -= value?.count ?? 0
            case .step(.chunks(let run)): room -= run.bytes
            case .slice(let staging): room -= staging.bytes
            case .step, .removal, .snapshot, .truncate, .taking, .close, .drop: break
            }
            return room >= 0
        }

        /// Items of the same lane keep their order. Steps are enqueued one by one, so they need none.
        var lane: String {
            switch work {
            case .step, .removal: "step/" + namespace
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
        /// A large batch whose operations are stored, except a few; the items behind it wait.
        case seal(JournalBatch)
        /// A tree after everything appended before.
        case snapshot(JournalSnapshot)
        /// A step of a snapshot in progress.
        case step(SnapshotStep)
        /// Removes some of the data that is no longer needed.
        case removal
        case truncate(upTo: UInt64)
        /// Part of an import from another folder.
        case taking(NamespaceImport.Step)
        case close
        /// Removes the namespace with its settings, and stores a setting of the whole store in the same transaction.
        case drop(noting: JournalSetting)

        /// Whether it still runs after its journal was closed: settings of a namespace outlive its journal, and so does a snapshot in progress.
        var survivesJournalClose: Bool {
            switch self {
            case .put, .step, .removal, .slice, .seal, .drop: true
            default: false
            }
        }

        /// Whether it still runs while the store closes: everything appended before is stored, in any number of slices.
        func survivesStoreClose(isLate: Bool) -> Bool {
            switch self {
            case .slice(let staging): staging.isOfBatch && !isLate
            case .seal: true
            default: false
            }
        }

        /// Whether it is part of a transaction, and may share it.
        var isStored: Bool {
            switch self {
            case .append, .put, .slice, .seal, .step, .removal, .truncate, .taking, .drop: true
            case .snapshot, .close: false
            }
        }

        /// Whether it needs its own transaction: it fills one, and the commits before it need not wait for that.
        var needsOwnTransaction: Bool {
            switch self {
            case .slice, .step(.chunks), .removal, .taking, .drop: true
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

        /// Number of commits that become durable with it.
        var commits: UInt64 {
            if case .taking(let step) = self { return step.commits }
            return batch.map { $0.sequence - $0.expectedLast } ?? 0
        }

        /// Where a crash test may end the process: before and after the commit of this item.
        var faultPoints: (before: FaultPoint?, after: FaultPoint?) {
            switch self {
            case .step(.chunks): (nil, .snapshotChunk)
            case .step(.replace): (.beforeSwitch, .afterSwitch)
            case .removal: (nil, .truncate)
            case .slice: (nil, .slice)
            case .append(let batch), .seal(let batch): (batch.staged.isEmpty ? nil : .beforeSeal, nil)
            case .taking(.chunks): (nil, .snapshotChunk)
            case .taking(.commit): (.beforeSwitch, .afterSwitch)
            case .drop: (.beforeDrop, .afterDrop)
            default: (nil, nil)
            }
        }
    }

    var items: [Item] = []
    /// Whether a commit of all items is scheduled, or will be by the thread that holds one.
    var isScheduled = false
    /// A thread has appended without scheduling that commit, and is about to run it (`Committer.commitHeld`).
    var isHeld = false
    /// Number of blocks on the journal queue that have not ended.
    var pending = 0
    /// Whether the store is closed.
    var isClosed = false
    /// Whether closing it abandons large batches in progress.
    var isLate = false
    /// Closed namespaces.
    var closed: Set<String> = []
    /// How often each namespace was removed. Journals that were opened before refuse all later items.
    var removals: [String: Int] = [:]
}
