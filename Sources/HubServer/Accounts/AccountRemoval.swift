import Accounts
import DispatchNet
import HubEngine
import JSONTree
import Logging
import Scheduling
import SecurityRules
import Synchronization

/// Removes what belongs to deleted accounts from the database: what the rules' `.account` says, and the places of the configuration. It is
/// one commit, or several where it is much.
///
///     account deleted, noted as owed ─► behind what the user has asked ─► found ─► commit ─► durable ─► no longer owed
///                                                                           ▲          └─ refused: again in a second │
///                                                                           └────────────────── more ◄───────────────┘
///
/// The account store keeps the list of owed removals; the next process carries out what this one leaves: it finds what is left.
final class AccountRemoval: Sendable {
    private let places: [AccountPlace]
    private let database: Database
    private let home: Lane
    private let accounts: AccountService
    /// Writes of one commit, and that are found at a time.
    private let atOnce: Int
    private let scheduler: Scheduler
    private let logger: Logger
    private let searches = Mutex(Searches())

    /// Milliseconds between attempts while the disk refuses the write.
    private static let pauseMs: Int64 = 1_000

    /// One account's removal under way.
    private struct Removal: Sendable {
        let uid: String
        /// Found and not made yet.
        var writes: ArraySlice<AccountWrite>
        /// Nil before the first search.
        var search: AccountSearch?
        /// Writes of the next commit: fewer where too much would follow.
        var next: Int
    }

    /// One search at a time: each walks through the tree, and holds the one that it began with.
    private struct Searches {
        var isBusy = false
        var waiting: [Removal] = []
    }

    init(
        _ places: [AccountPlace], database: Database, lane: Lane, accounts: AccountService,
        atOnce: Int = EngineLimits().accountWrites, scheduler: Scheduler, logger: Logger
    ) {
        self.places = places
        self.database = database
        home = lane
        self.accounts = accounts
        self.atOnce = max(1, atOnce)
        self.scheduler = scheduler
        self.logger = logger
    }

    /// Removals that wait for their search.
    var searchesWaiting: Int { searches.withLock { $0.waiting.count } }

    /// Carries out the removals that the previous process left.
    func resume() {
        accounts.perform { [self] accounts in
            for uid in accounts.owedRemovals() { remove(uid) }
        }
    }

    /// Removes the data of one account. From any thread.
    func remove(_ uid: String) {
        let own = places.compactMap { $0.path(of: uid) }.map { AccountWrite(removing: $0) }
        // A large write of the user's connections may still be in preparation and would restore the data: wait for it.
        submit([.behind(user: uid), .accountData([], of: uid)]) { [self] failure in
            if failure != nil { return later(uid) { $0.remove(uid) } }
            find(Removal(uid: uid, writes: own[...], next: atOnce))
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
        database.findAccountData(removal.search, of: removal.uid, atMost: atOnce - removal.writes.count) { [self] found, search in
            if let next = nextSearch() { self.search(next) }
            var removal = removal
            removal.writes += found
            removal.search = search
            commit(removal)
        }
    }

    /// Ends a search.
    /// - Returns: the removal that has its turn; nil when none waits.
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
        if part.isEmpty { return finish(removal.uid) }
        submit([.accountData(Array(part), of: removal.uid)]) { [self] failure in
            var removal = removal
            switch failure?.code {
            case nil:
                removal.writes = removal.writes.dropFirst(part.count)
                removal.next = min(atOnce, removal.next * 2)
                find(removal)
            // More would follow than may, or a `.validate` refuses some of it: from fewer, down to one, which is made in any case.
            case .tooBig where part.count > 1, .permissionDenied where part.count > 1:
                removal.next = part.count / 2
                commit(removal)
            default: later(removal.uid) { [removal] in $0.commit(removal) }
            }
        }
    }

    /// Unless it is done by then: by the hub of the cluster that writes the database.
    private func later(_ uid: String, _ work: @escaping @Sendable (AccountRemoval) -> Void) {
        scheduler.after(ms: Self.pauseMs, on: home.loop.queue) { [weak self] in
            guard let self else { return }
            accounts.perform { accounts in if accounts.owesRemoval(of: uid) { work(self) } }
        }
    }

    /// - Parameter done: called with why the last request was refused; nil when it was carried out and is durable.
    private func submit(_ requests: [Request], _ done: @escaping @Sendable (Failure?) -> Void) {
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
