/// What waits for the journal queue.
struct Waiting {
    struct Item: Sendable {
        /// Empty for what concerns the whole store.
        let namespace: String
        let work: Work
        let completion: @Sendable (Result<Void, JournalError>) -> Void
    }

    enum Work: Sendable {
        case append(JournalBatch)
        /// A setting; nil removes it.
        case put(name: String, value: [UInt8]?)
        /// A tree as it is after everything appended before.
        case snapshot(JournalSnapshot)
        /// A step of the store's own.
        case step(JournalStore.SnapshotStep)
        case truncate(upTo: UInt64)
        case close

        /// Whether a journal's end lets it pass: settings of a namespace outlive its journal, and so does a snapshot under way.
        var outlivesJournal: Bool {
            switch self {
            case .put, .step: true
            default: false
            }
        }

        /// Whether it is part of a transaction, and may share it.
        var isStored: Bool {
            switch self {
            case .append, .put, .step, .truncate: true
            case .snapshot, .close: false
            }
        }

        /// Where a crash test may end the process: before the commit with this in it is made, and after.
        var faultPoints: (before: FaultPoint?, after: FaultPoint?) {
            switch self {
            case .step(.chunk): (nil, .snapshotChunk)
            case .step(.take): (.beforeSwitch, .afterSwitch)
            case .step(.trim): (nil, .truncate)
            default: (nil, nil)
            }
        }
    }

    var items: [Item] = []
    /// A commit that takes all items is already on its way.
    var isScheduled = false
    /// The store.
    var isClosed = false
    /// Single namespaces.
    var closed: Set<String> = []
}
