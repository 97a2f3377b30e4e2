import Dispatch
import Journal
import Logging
import Scheduling
import Synchronization

/// The hubs of a cluster as one of them sees them, and the shards that it writes itself.
///
/// ```
/// heartbeats of the others ─► HubTable ─┐
/// shards: caught up? ───────────────────┴─► ShardElection of each ─► write, yield ─► the databases of its namespaces (WriterRole)
///                                                 ▲                                          │ roleDidChange
///                                                 └──────────── yielded, superseded ◄────────┘
/// ```
/// Confined to `queue`, except `report`.
final class Hubs: @unchecked Sendable {
    // Sendable: confined to `queue`; callbacks only hop to it.
    private let queue = DispatchQueue(label: "vigla.cluster.hubs")
    private let settings: ClusterSettings
    private let connection: NatsConnection
    private let shards: [Shard]
    private let writers: Writers
    private let scheduler: Scheduler
    private let logger: Logger
    private let startedMs: Int64
    private let subject: String
    private let id: UInt64

    private var table = HubTable()
    private var elections: [ShardElection]
    /// The open namespaces, by shard.
    private var namespaces: [[String: WriterRole]]
    private var subscription: Subscription?
    private var ticks: ScheduledWork?
    /// Start of uninterrupted reception of heartbeats; nil without a connection.
    private var listeningSince: Int64?
    private var tickedAt: Int64
    private var shortenedAt = Int64.min / 2
    private var isClosed = false
    private var counts = (elections: 0, superseded: 0)
    private let published: Mutex<ClusterReport>
    private var address = ""

    init(
        _ settings: ClusterSettings, over connection: NatsConnection, _ shards: [Shard], _ writers: Writers, _ scheduler: Scheduler,
        _ logger: Logger
    ) {
        (self.settings, self.connection, self.shards, self.writers) = (settings, connection, shards, writers)
        (self.scheduler, self.logger) = (scheduler, logger)
        startedMs = scheduler.wallMs
        subject = "vigla.hubs.\(settings.name)"
        id = writers.hub
        elections = shards.indices.map { ShardElection(hub: writers.hub, shard: $0, settings.election) }
        namespaces = Array(repeating: [:], count: shards.count)
        tickedAt = scheduler.steadyMs
        published = Mutex(ClusterReport(name: settings.name, hubs: [], shards: []))
        address = settings.address ?? ""
    }

    func start() {
        queue.async { [self] in
            for (i, shard) in shards.enumerated() {
                shard.whenForeignBatch { [weak self] namespace in self?.queue.async { [weak self] in self?.handleForeignWrite(namespace, at: i) } }
            }
            // Fails only after `close`.
            subscription = try? connection.subscribe(subject) { [weak self, queue] bytes in
                guard let beat = Heartbeat(decoding: bytes) else { return }
                queue.async { [weak self] in self?.receive(beat) }
            }
            ticks = scheduler.every(ms: settings.heartbeatMs, on: queue) { [weak self] in self?.tick() }
            tick()
        }
    }

    /// Adds a namespace that is being opened.
    func open(_ namespace: String, at shard: Int) -> WriterRole {
        let writerRole = WriterRole(writer: { [writers] in writers.address(ofWriterOf: namespace) }) { [weak self] role, reason in
            self?.queue.async { [weak self] in self?.roleDidChange(role, reason, namespace, shard) }
        }
        queue.async { [self] in
            namespaces[shard][namespace] = writerRole
            if elections[shard].part == .writing { writerRole.request(.write) }
        }
        return writerRole
    }

    /// Sets the address shown for this hub, unless the settings name one.
    func announceAddress(_ address: String) {
        queue.async { [self] in
            if settings.address == nil { self.address = address }
        }
    }

    /// Notifies the others that this hub is leaving. All its appends are settled.
    func close(_ done: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            isClosed = true
            ticks?.cancel()
            subscription = nil
            connection.publish(Heartbeat(hub: id, startedMs: startedMs, address: "", shards: []).encoded, to: subject)
            done()
        }
    }

    // MARK: Heartbeats

    private func receive(_ beat: Heartbeat) {
        guard beat.hub != id, !isClosed else { return }
        let before = table.hubs[beat.hub]
        table.receive(beat, nowMs: scheduler.steadyMs)
        if before == nil, !beat.shards.isEmpty { log("a hub of the cluster is there", beat) }
        if before != nil, beat.shards.isEmpty { log("a hub of the cluster has ended", beat) }
        // Decide at once when another hub starts or stops writing, instead of at the next tick.
        if before?.beat.shards.map(\.writes) != beat.shards.map(\.writes) { decide() }
    }

    private func log(_ text: Logger.Message, _ beat: Heartbeat) {
        logger.notice(text, metadata: ["hub": "\(String(beat.hub, radix: 16))", "address": "\(beat.address)"])
    }

    private func tick() {
        guard !isClosed else { return }
        let now = scheduler.steadyMs
        if now - tickedAt > settings.deadAfterMs {
            // The process was suspended: heartbeats missed meanwhile say nothing about the others.
            table.wasAway(nowMs: now)
            listeningSince = nil
        }
        tickedAt = now
        if !connection.isConnected { listeningSince = nil } else if listeningSince == nil { listeningSince = now }
        for hub in table.forget(before: now - settings.deadAfterMs) { log("a hub of the cluster is not heard of any more", hub.beat) }
        decide()
        beat()
        if now - shortenedAt >= settings.checkIntervalMs { shorten(now) }
    }

    /// Shortens the logs that this hub writes.
    private func shorten(_ now: Int64) {
        shortenedAt = now
        // Wait until all present hubs have sent a heartbeat: each must have the messages that are removed.
        guard isMembershipKnown else { return }
        for i in shards.indices where elections[i].part == .writing {
            let others = table.hubs.values.map { i < $0.beat.shards.count ? $0.beat.shards[i].applied : 0 }
            shards[i].shorten(others: others.min() ?? .max)
        }
    }

    private func beat() {
        let now = scheduler.steadyMs
        let said = shards.indices.map { i in
            let status = shards[i].status
            return Heartbeat.Shard(
                isReady: status.isCaughtUp && elections[i].isReady(nowMs: now), writes: elections[i].part != .following,
                applied: status.applied)
        }
        connection.publish(Heartbeat(hub: id, startedMs: startedMs, address: address, shards: said).encoded, to: subject)
    }

    // MARK: Election

    /// Whether every present hub has had time to send a heartbeat.
    private var isMembershipKnown: Bool { listeningSince.map { scheduler.steadyMs - $0 >= settings.deadAfterMs } ?? false }

    private func decide() {
        guard !isClosed else { return }
        let now = scheduler.steadyMs
        let isKnown = isMembershipKnown
        var hasChanged = false
        for i in shards.indices {
            let peers = isKnown ? table.peers(at: i) : nil
            switch elections[i].decide(isCaughtUp: shards[i].status.isCaughtUp, peers, nowMs: now) {
            case nil: continue
            case .write:
                counts.elections += 1
                logger.notice("this hub writes", metadata: ["shard": "\(i)"])
                for (_, one) in namespaces[i] { one.request(.write) }
            case .yield:
                logger.notice("another hub is to write", metadata: ["shard": "\(i)"])
                for (_, one) in namespaces[i] { one.request(.follow) }
                settle(i)
            }
            hasChanged = true
        }
        if hasChanged { beat() }
        publish()
    }

    /// Completes a yield once all pending writes of the shard are settled.
    private func settle(_ shard: Int) {
        guard elections[shard].part == .yielding, namespaces[shard].values.allSatisfy({ $0.role == .following }) else { return }
        elections[shard].yielded()
        beat()
    }

    private func roleDidChange(_ role: WriterRole.Role, _ reason: JournalError?, _ namespace: String, _ shard: Int) {
        guard role == .following, !isClosed else { return publish() }
        if let reason {
            logger.notice("another hub has written", metadata: ["namespace": "\(namespace)", "reason": "\(reason)"])
            supersede(shard)
        }
        settle(shard)
        decide()
    }

    /// Handles a namespace's batch from another hub.
    private func handleForeignWrite(_ namespace: String, at shard: Int) {
        guard namespaces[shard][namespace]?.role == .writing else { return }
        supersede(shard)
        decide()
    }

    private func supersede(_ shard: Int) {
        guard elections[shard].part == .writing else { return }
        counts.superseded += 1
        logger.notice("this hub does not write any more", metadata: ["shard": "\(shard)"])
        elections[shard].superseded(nowMs: scheduler.steadyMs)
        for (_, one) in namespaces[shard] { one.request(.follow) }
        beat()
    }

    // MARK: Report

    private func publish() {
        var known: [UInt64: String] = [:]
        for (hub, said) in table.hubs { known[hub] = said.beat.address }
        let found = shards.indices.map { i -> Writer in
            if elections[i].part != .following { return .here }
            let writing = table.peers(at: i).filter(\.writes).map(\.hub)
            return Ranking.best(writing, at: i).map { .hub(id: $0) } ?? .unknown
        }
        writers.update(found, addresses: known, isMembershipKnown: isMembershipKnown)
        let others = table.hubs.values.map { one in
            ClusterReport.Hub(
                id: one.beat.hub, address: one.beat.address, startedMs: one.beat.startedMs, isThis: false,
                applied: one.beat.shards.map(\.applied))
        }
        let statuses = shards.map(\.status)
        let this = ClusterReport.Hub(
            id: id, address: address, startedMs: startedMs, isThis: true, applied: statuses.map(\.applied))
        var report = ClusterReport(
            name: settings.name, hubs: ([this] + others).sorted { $0.id < $1.id },
            shards: zip(statuses, found).map { ClusterReport.Shard($0, $1, this: id) })
        (report.elections, report.superseded) = counts
        for status in statuses {
            report.conflicts += status.conflicts
            report.retries += status.retries
        }
        published.withLock { $0 = report }
    }

    /// The state as of the last heartbeat. From any thread.
    var report: ClusterReport { published.withLock { $0 } }
}

extension ClusterReport.Shard {
    fileprivate init(_ status: ShardStatus, _ writer: Writer, this hub: UInt64) {
        let role: ClusterReport.ShardRole =
            status.isBehindPurge
                ? .behind
                : status.followState != .following ? .cutOff : !status.isCaughtUp ? .behind : writer == .here ? .writer : .follower
        let writing: UInt64? =
            switch writer {
            case .here: hub
            case .hub(let id): id
            case .unknown: nil
            }
        self.init(role: role, writer: writing, last: status.last, applied: status.applied, lagMs: status.lagMs)
        (first, snapshot) = (status.first, status.snapshot)
    }
}
