import Dispatch
import Foundation
import Journal
import JSONTree
import SQLiteJournal
import Scheduling

extension Workload {
    /// Sequential commits of one write each, encoded and stored below `TMPDIR`, which `instructions` removes. Not waiting for the disk
    /// does not change the number of instructions.
    static let journal = Workload(name: "journal-commit", count: 100) {
        let folder = FileManager.default.temporaryDirectory.appending(path: "vigla-bench-\(UUID().uuidString)")
        let store = try JournalStore.open(
            folder: folder.path, settings: JournalStore.Settings(durability: .normal, snapshotAfterBytes: .max, snapshotAfterBatches: .max),
            scheduler: .system())
        let journal = store.journal(for: "bench")
        let value = try parsed(record)
        var sequence: UInt64 = 0
        return { [store] times in
            for _ in 0..<times {
                let path = Path(["locations", Key("user\(1_000 + sequence % 100)"), "current"])
                let done = DispatchSemaphore(value: 0)
                let batch = JournalBatch(sequence: sequence + 1, after: sequence, operations: [.set(path, value)])
                journal.append(batch) { result in
                    if case .failure(let error) = result { print("a commit failed: \(error)") }
                    done.signal()
                }
                done.wait()
                sequence += 1
            }
            withExtendedLifetime(store) {}
        }
    }
}
