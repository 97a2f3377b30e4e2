package import ClusterJournal
import Dispatch
import Journal
package import Logging
import Scheduling
package import SQLiteJournal
package import TestSupport

/// One hub's part of a cluster: its data folder, and the journals over the servers.
package final class ClusterHub: Sendable {
    package let folder: TemporaryFolder
    package let storage: ClusterStorage
    package let store: JournalStore

    /// - Parameter name: the cluster; each test uses its own.
    package init(
        _ cluster: TestCluster, _ name: String, folder: TemporaryFolder? = nil, servers: [Int]? = nil, snapshotAfterBatches: Int = 200_000,
        logger: Logger = .silent,
        _ change: (inout ClusterSettings) -> Void = { _ in }
    ) throws {
        self.folder = try folder ?? TemporaryFolder()
        let scheduler = Scheduler.system()
        let stored = JournalStore.Settings(snapshotAfterBatches: snapshotAfterBatches)
        store = try JournalStore.open(folder: self.folder.path, settings: stored, scheduler: scheduler)
        var settings = ClusterSettings(name: name)
        settings.shards = 1
        change(&settings)
        storage = try ClusterStorage(settings, over: cluster.connect(servers), in: store, scheduler: scheduler, logger: logger)
    }

    /// Closes and waits. Not for a queue of the hub.
    package func closeNow() {
        let closed = DispatchSemaphore(value: 0)
        storage.close(isLate: false) { _ in closed.signal() }
        closed.wait()
    }

    package func close(isLate: Bool = false) async {
        await withCheckedContinuation { continuation in storage.close(isLate: isLate) { _ in continuation.resume() } }
    }
}
