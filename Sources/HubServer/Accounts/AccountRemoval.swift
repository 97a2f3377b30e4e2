import Accounts
import DispatchNet
import HubEngine
import JSONTree
import Logging
import Scheduling
import SecurityRules
import Synchronization

/// Removes the data of deleted accounts from the databases that have these accounts: the places of the rules' `.account` keys and those of
/// the configuration. A removal is one commit, or several if it is large.
///
///     account deleted, removal listed ─► behind the user's requests ─► found ─► commit ─► durable ─► removed from the list
///                                                                        ▲          └─ refused: again in a second │
///                                                                        └────────────────── more ◄───────────────┘
///
/// The account store keeps the list of pending removals. After a restart the next process resumes them and finds the data that is left.
final class AccountRemoval: Sendable {
    private let places: [AccountPlace]
    /// The name of the database that the places belong to.
    private let placesDatabase: String
    private let databases: @Sendable () -> [Database]
    private let home: LoopSessions
    private let accounts: AccountService
    /// Most writes in one commit, and the most that one search returns.
    private let atOnce: Int
    private let scheduler: Scheduler
    private let logger: Logger
    private let searches = Mutex(Searches())

    /// Milliseconds between attempts while the disk refuses the write.
    private static let pauseMs: Int64 = 1_000

    /// The removal of one account's data from one database, in progress.
    private struct Removal: Sendable {
        let uid: String
        let database: Database
        /// Found but not committed yet.
        var writes: ArraySlice<AccountWrite>
        /// Nil before the first search.
        var search: AccountSearch?
        /// Number of writes in the next commit; halved when the commit would be too large.
        var next: Int
        /// Called when the database holds nothing more of the account.
        let done: @Sendable () -> Void
    }

    /// One search at a time: each walks the tree and retains the version that it began with.
    private struct Searches {
        var isBusy = false
        var waiting: [Removal] = []
    }

    /// - Parameters:
    ///   - places: of the database with the name `placesDatabase`, in addition to the rules' `.account`.
    ///   - databases: those that have the accounts, and are open.
    ///   - atOnce: most writes in one commit.
    init(
        _ places: [AccountPlace], ofDatabase placesDatabase: String, databases: @escaping @Sendable () -> [Database], lane: LoopSessions,
        accounts: AccountService,
        atOnce: Int = EngineLimits().accountWrites, scheduler: Scheduler, logger: Logger
    ) {
        self.places = places
        self.placesDatabase = placesDatabase
        self.databases = databases
        home = lane
        self.accounts = accounts
        self.atOnce = max(1, atOnce)
        self.scheduler = scheduler
        self.logger = logger
    }

    /// Number of removals that wait for their search.
    var searchesWaiting: Int { searches.withLock { $0.waiting.count } }

    /// Resumes the removals that the previous process left pending.
    func resume() {
        accounts.perform { [self] accounts in
            for uid in accounts.pendingRemovals() { remove(uid) }
        }
    }

    /// Removes the data of one account. From any thread.
    func remove(_ uid: String) {
        let databases = self.databases()
        let all = Countdown(databases.count) { [weak self] in self?.finish(uid) }
        for database in databases {
            let own = database.name == placesDatabase ? places.compactMap { $0.path(of: uid) }.map { AccountWrite(removing: $0) } : []
            begin(Removal(uid: uid, database: database, writes: own[...], next: atOnce) { all.arrive() })
        }
    }

    private func begin(_ removal: Removal) {
        // A large write of the user's connections may still be in preparation and would restore the data: wait for it.
        submit([.behind(user: removal.uid), .accountData([], of: removal.uid)], to: removal.database) { [self] failure in
            failure == nil ? find(removal) : later(removal) { $0.begin(removal) }
        }
    }

    private func find(_ removal: Removal) {
        guard removal.writes.count < atOnce, removal.search?.isDone != true else { return commit(removal) }
        let begins = searches.withLock { searches -> Bool in
            if searches.isBusy {
                searches.waiting.append(removal)
                return false
            }
            searches.isBusy = true
            return true
        }
        if begins { search(removal) }
    }

    private func search(_ removal: Removal) {
        removal.database.findAccountData(removal.search, of: removal.uid, atMost: atOnce - removal.writes.count) { [self] found, search in
            if let next = nextSearch() { self.search(next) }
            var removal = removal
            removal.writes += found
            removal.search = search
            commit(removal)
        }
    }

    /// Ends a search.
    /// - Returns: the next removal in line; nil when none waits.
    private func nextSearch() -> Removal? {
        searches.withLock { searches -> Removal? in
            if searches.waiting.isEmpty {
                searches.isBusy = false
                return nil
            }
            return searches.waiting.removeFirst()
        }
    }

    private func commit(_ removal: Removal) {
        let part = removal.writes.prefix(removal.next)
        if part.isEmpty { return removal.done() }
        submit([.accountData(Array(part), of: removal.uid)], to: removal.database) { [self] failure in
            var removal = removal
            switch failure?.code {
            case nil:
                removal.writes = removal.writes.dropFirst(part.count)
                removal.next = min(atOnce, removal.next * 2)
                find(removal)
            // The commit is too large, or a `.validate` refuses part of it: retry with half as many writes. A single write is always carried out.
            case .tooBig where part.count > 1, .permissionDenied where part.count > 1:
                removal.next = part.count / 2
                commit(removal)
            default: later(removal) { [removal] in $0.commit(removal) }
            }
        }
    }

    /// Retries after a pause, unless the cluster's writer has completed the removal by then, or the database was removed.
    private func later(_ removal: Removal, _ work: @escaping @Sendable (AccountRemoval) -> Void) {
        scheduler.after(ms: Self.pauseMs, on: home.loop.queue) { [weak self] in
            guard let self else { return }
            guard databases().contains(where: { $0 === removal.database }) else { return removal.done() }
            accounts.perform { accounts in if accounts.hasPendingRemoval(of: removal.uid) { work(self) } }
        }
    }

    /// - Parameter done: called with the last request's failure; nil when it was carried out and is durable.
    private func submit(_ requests: [Request], to database: Database, _ done: @escaping @Sendable (Failure?) -> Void) {
        let writer = Writer(lane: home.index, done)
        for request in requests { database.submit(request, from: writer) }
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
        private let done: @Sendable (Failure?) -> Void

        init(lane: Int, _ done: @escaping @Sendable (Failure?) -> Void) {
            self.done = done
            super.init(lane: lane, dialect: .system, identity: .admin)
        }

        override func replied(_ reply: Reply) {
            switch reply {
            case .written: done(nil)
            case .failed(let failure): done(failure)
            default: done(Self.unknown)
            }
        }

        override func dismissed() { done(Self.unknown) }

        private static let unknown = Failure(.unavailable, "The request was not carried out.")
    }
}
