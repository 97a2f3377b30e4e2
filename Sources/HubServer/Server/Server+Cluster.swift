import HubEngine
import Journal
import JSONTree

/// Reports on the hub's cluster at `/.health`, `/.metrics` and `/.inspect/cluster.json` (docs/cluster.md).
extension Server {
    /// Why a load balancer should route writes elsewhere: the worst fault of any shard; nil when there is no fault.
    var clusterFault: (reason: String, text: String)? {
        guard let report = storage.cluster, !report.shards.isEmpty else { return nil }
        if report.shards.contains(where: { $0.role == .cutOff }) {
            return ("cut_off", "The servers that keep the cluster's log cannot be reached, or have another log: what is shown may be old.")
        }
        if report.shards.contains(where: { $0.role == .behind }) {
            return ("behind", "This hub has not received all that the cluster's log holds.")
        }
        if report.shards.contains(where: { $0.writer == nil }) {
            return ("no_writer", "No hub of the cluster is known that takes writes; reads continue.")
        }
        return nil
    }

    /// `,"cluster":{"name":"production","shards":{"writer":5,"follower":11,…},"namespaces":{"default":"writer"}}`
    var clusterHealth: String {
        guard let report = storage.cluster else { return "" }
        let shards = ClusterReport.ShardRole.allCases.map { role in
            "\"\(role.rawValue)\":\(report.shards.count { $0.role == role })"
        }
        // Names have no character that JSON would escape.
        let namespaces = hub.all.sorted { $0.name < $1.name }.compactMap { database in
            database.role.map { "\"\(database.name)\":\"\($0.rawValue)\"" }
        }
        return ",\"cluster\":{\"name\":\"\(report.name)\",\"shards\":{\(shards.joined(separator: ","))},"
            + "\"namespaces\":{\(namespaces.joined(separator: ","))}}"
    }

    func addCluster(to page: inout MetricsPage) {
        guard let report = storage.cluster else { return }
        page.gauge("vigla_cluster_hubs", "Hubs of the cluster that are heard of, this one as well.", report.hubs.count)
        page.gauge(
            "vigla_cluster_shards", "Shards of the cluster, by the state of this hub in them.", label: "standing",
            ClusterReport.ShardRole.allCases.map { role in (role.rawValue, report.shards.count { $0.role == role }) })
        page.gauge("vigla_cluster_lag_commits", "Records of a log that this hub has not applied, at most.", Int(clamping: report.lag))
        page.gauge("vigla_cluster_lag_ms", "For how long it has lacked some.", Int(report.lagMs))
        page.gauge(
            "vigla_cluster_log_records", "Messages that a log of a shard holds, at most.",
            Int(clamping: report.shards.map { $0.first > 0 && $0.last >= $0.first ? $0.last - $0.first + 1 : 0 }.max() ?? 0))
        page.counter("vigla_cluster_elections_total", "Times that this hub began to write a shard.", report.elections)
        page.counter("vigla_cluster_superseded_total", "Times that another hub had written a shard of this one.", report.superseded)
        page.counter("vigla_cluster_conflicts_total", "Records that were appended again behind another hub's.", report.conflicts)
        page.counter("vigla_cluster_retries_total", "Times that a log was followed again after a gap or a silence.", report.retries)
    }

    /// The hubs, and each shard with its writer; nil outside a cluster.
    var clusterJSON: JSONValue? {
        guard let report = storage.cluster else { return nil }
        let hubs = report.hubs.map { hub -> JSONValue in
            [
                "id": .string(hub.name), "address": .string(hub.address), "startedAt": .int(hub.startedMs), "answers": .bool(hub.isThis),
                "writes": .int(Int64(report.shards.count { $0.writer == hub.id })), "lag": .int(Int64(clamping: report.lag(of: hub))),
            ]
        }
        let shards = report.shards.enumerated().map { number, shard -> JSONValue in
            [
                "number": .int(Int64(number)), "writer": .string(shard.writer.map { String($0, radix: 16) } ?? ""),
                "standing": .string(shard.role.rawValue), "first": .int(Int64(clamping: shard.first)),
                "snapshot": .int(Int64(clamping: shard.snapshot)), "last": .int(Int64(clamping: shard.last)),
                "applied": .int(Int64(clamping: shard.applied)), "lagMs": .int(shard.lagMs),
            ]
        }
        return ["name": .string(report.name), "hubs": .array(hubs), "shards": .array(shards)]
    }
}

extension ClusterReport {
    /// Messages that a hub had not applied at its last report, for the shard with the greatest lag.
    fileprivate func lag(of hub: Hub) -> UInt64 {
        zip(shards, hub.applied).map { shard, applied in shard.last > applied ? shard.last - applied : 0 }.max() ?? 0
    }
}
