import HubEngine
import SecurityRules

/// The counters of a database at one moment.
struct DatabaseReading {
    let name: String
    let inbox: Int
    let counters: EngineCounters

    init(_ database: Database) { (name, inbox, counters) = (database.name, database.inboxDepth, database.counters) }
}

/// The parts of `/.metrics` about databases, by namespace.
extension MetricsPage {
    private typealias Value = (EngineCounters) -> Int

    private mutating func gauge(_ name: String, _ help: String, of databases: [DatabaseReading], _ value: Value) {
        gauge(name, help, label: "namespace", databases.map { ($0.name, value($0.counters)) })
    }

    private mutating func counter(_ name: String, _ help: String, of databases: [DatabaseReading], _ value: Value) {
        counter(name, help, label: "namespace", databases.map { ($0.name, value($0.counters)) })
    }

    mutating func addRequests(_ all: [DatabaseReading]) {
        gauge(
            "vigla_database_inbox", "Requests that wait for a database's queue.", label: "namespace", all.map { ($0.name, $0.inbox) })
        gauge("vigla_database_waiting_bytes", "Bytes of requests not yet carried out and durable.", of: all, \.waitingBytes)
        counter("vigla_requests_total", "Requests handled.", of: all, \.requests)
        counter("vigla_commits_total", "Commits.", of: all, \.commits)
    }

    /// The commits of the hub itself, and what follows from commits by the rules.
    mutating func addConsequences(_ all: [DatabaseReading]) {
        counter(
            "vigla_system_commits_total", "Commits by the hub itself, by cause.", labels: "namespace", "cause",
            all.flatMap { database in
                SystemCause.allCases.map { (database.name, $0.rawValue, database.counters.systemCommits[$0] ?? 0) }
            })
        counter(
            "vigla_system_writes_total", "Writes that the rules had follow from commits, by the key.", labels: "namespace", "cause",
            all.flatMap { database in
                ConsequenceKind.allCases.map { (database.name, $0.name, database.counters.systemWrites[$0] ?? 0) }
            })
        gauge("vigla_owed_rows", "Pending rows of inboxes and pending removals, at most.", of: all, \.owedRows)
        gauge("vigla_deliveries", "Notifications and events that are not sent yet.", of: all, \.deliveriesPending)
        gauge("vigla_dead_letters", "Notifications and events that could not be delivered.", of: all, \.deadLetters)
        counter("vigla_deliveries_done_total", "Deliveries that a receiver has accepted.", of: all, \.deliveriesDone)
        counter("vigla_deliveries_retried_total", "Attempts that failed and are repeated.", of: all, \.deliveriesRetried)
        counter("vigla_deliveries_failed_total", "Deliveries that failed for good.", of: all, \.deliveriesFailed)
        counter("vigla_deliveries_left_out_total", "Deliveries left out because too many waited.", of: all, \.deliveriesLeftOut)
        counter("vigla_expired_nodes_total", "Nodes that ended by time.", of: all, \.expired)
        gauge("vigla_expiring_nodes", "Nodes that are to end by time, as far as they are known.", of: all, \.expiringNodes)
        gauge("vigla_expiry_lag_milliseconds", "How late the last node ended; 0 when nothing is due.", of: all) { Int($0.expiryLagMs) }
        counter("vigla_countings_total", "Times that all counters of the rules were recounted.", of: all, \.countings)
    }

    /// Writes that were refused, because of the disk or a budget.
    mutating func addRefusals(_ all: [DatabaseReading]) {
        gauge("vigla_degraded", "1 while the disk refuses, and with it every write is refused.", of: all) { $0.refusal == nil ? 0 : 1 }
        gauge(
            "vigla_degraded_reason", "1 for the reason why writes are refused.", labels: ("namespace", "reason"),
            all.compactMap { database in database.counters.refusal.map { (database.name, $0.rawValue, 1) } })
        counter("vigla_degradations_total", "Times that the disk began to refuse.", of: all, \.refusals)
        counter("vigla_refused_writes_total", "Requests refused because the disk refuses.", of: all, \.refusedWrites)
        counter("vigla_writes_over_budget_total", "Requests refused because their user writes too often.", of: all, \.overBudget)
    }

    mutating func addLargeWrites(_ all: [DatabaseReading]) {
        counter("vigla_prepared_writes_total", "Large writes that were prepared off the database queue.", of: all, \.prepared)
        counter(
            "vigla_writes_prepared_again_total", "Times that a large write was prepared again, because other writes changed its data.",
            of: all, \.preparedAgain)
        counter(
            "vigla_followed_places_total", "Places changed by other writes that were merged into prepared writes on the database queue.",
            of: all, \.followedPlaces)
    }

    mutating func addObservers(_ all: [DatabaseReading]) {
        counter(
            "vigla_observers_asked_total", "Evaluations of an observer's permission on the database queue.", of: all, \.observersAsked)
        counter(
            "vigla_foreseen_commits_total", "Times that the permissions of many observers were evaluated off the database queue.",
            of: all, \.observerPrechecks)
        counter("vigla_conflated_changes_total", "Changes that slow readers skipped.", of: all, \.conflated)
        gauge(
            "vigla_suspended_clients", "Clients whose observers are suspended because they read too slowly.", of: all, \.suspended)
        gauge("vigla_observers", "Observers: listens, subscriptions and event streams.", of: all, \.observers)
        gauge("vigla_observers_counted", "Observers, weighted: deep ones count more than one.", of: all, \.listens)
        counter("vigla_query_changes_total", "Times that a commit concerned a live query.", of: all, \.windowsMoved)
    }

    mutating func addIndexes(_ all: [DatabaseReading]) {
        gauge("vigla_indexes", "Kept indexes.", of: all, \.indexes)
        gauge("vigla_index_entries", "Children in kept indexes.", of: all, \.indexEntries)
        counter(
            "vigla_children_sorted_total", "Children sorted into indexes on a database's queue.", of: all, \.childrenSortedOnQueue)
        counter(
            "vigla_children_sorted_beside_total", "Children sorted into indexes off the database queue.", of: all, \.childrenSorted)
    }
}
