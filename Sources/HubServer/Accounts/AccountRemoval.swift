import Accounts
import DispatchNet
import HubEngine
import JSONTree
import Logging
import Scheduling

/// Removes the places of deleted accounts from the database, those of one account in one commit.
///
///     account deleted, and noted as owed, in one transaction ─► behind what the user has asked ─► commit ─► durable ─► no longer owed
///                                                                                                └─ refused: again in a second
///
/// The account store keeps the list of owed removals; the next process carries out what this one leaves.
final class AccountRemoval: Sendable {
    private let places: [AccountPlace]
    private let database: Database
    private let home: Lane
    private let accounts: AccountService
    private let scheduler: Scheduler
    private let logger: Logger

    /// Milliseconds between attempts while the disk refuses the write.
    private static let pauseMs: Int64 = 1_000

    init(
        _ places: [AccountPlace], database: Database, lane: Lane, accounts: AccountService, scheduler: Scheduler, logger: Logger
    ) {
        self.places = places
        self.database = database
        home = lane
        self.accounts = accounts
        self.scheduler = scheduler
        self.logger = logger
    }

    /// Carries out the removals that the previous process left.
    func resume() {
        accounts.perform { [self] accounts in
            for uid in accounts.owedRemovals() { remove(uid) }
        }
    }

    /// Removes the data of one account. From any thread.
    func remove(_ uid: String) {
        let writes = places.compactMap { $0.path(of: uid) }.map { TreeWrite($0, WriteValue(.null)) }
        guard !writes.isEmpty else { return finish(uid) }
        let writer = Writer(lane: home.index) { [self] isStored in
            if isStored { return finish(uid) }
            scheduler.after(ms: Self.pauseMs, on: home.loop.queue) { [weak self] in self?.remove(uid) }
        }
        // A large write of the user's connections may still be in preparation and would restore the data: wait for it.
        database.submit(.behind(user: uid), from: writer)
        database.submit(.system(writes, .accountDeletion), from: writer)
    }

    private func finish(_ uid: String) {
        accounts.perform { [logger] accounts in
            accounts.removalDone(uid)
            logger.info("data of a deleted account is removed", metadata: ["uid": "\(uid.prefix(128))"])
        }
    }

    /// The hub itself as a client of its database.
    private final class Writer: Client, @unchecked Sendable {
        // Sendable: constant.
        private let done: @Sendable (Bool) -> Void

        init(lane: Int, _ done: @escaping @Sendable (Bool) -> Void) {
            self.done = done
            super.init(lane: lane, dialect: .system, identity: .admin)
        }

        override func replied(_ reply: Reply) {
            if case .written = reply { done(true) } else { done(false) }
        }

        override func dismissed() { done(false) }
    }
}
