import ArgumentParser
import JSONTree
import ViglaClient

/// `vigla cluster status URL`
struct Cluster: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Ask a hub about the cluster that it is one of (docs/cluster.md).", subcommands: [Status.self])

    struct Status: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the hubs of a cluster, who writes which shard, and how far each hub is behind.",
            discussion: """
                Any hub of the cluster answers, as it sees the others. Exit code 1 when it is cut off from the log, or a shard has no hub \
                that writes:

                  vigla cluster status http://10.0.0.11:9000 --auth-file secret.txt
                """)

        @Argument(help: "A hub of the cluster, such as http://10.0.0.11:9000.", transform: HubURL.init(argument:)) var url: HubURL
        @Flag(help: "The hub's answer as JSON.") var json = false
        @OptionGroup var credential: AdminCredential
        @OptionGroup var tlsOptions: TLSOptions

        func validate() throws { try url.refusePath("A cluster is that of the whole hub") }

        func run() {
            let (status, body) = HubRequest.send(
                "GET", "/.inspect/cluster.json", to: url.address, tls: tlsOptions, credential: credential.read())
            guard status == 200, let answer = try? JSONValue(body) else {
                HubRequest.refused(status, body, by: url.address, credential, advice: "Was it started with --cluster?")
            }
            if json { StandardStream.output.write(body) } else { for line in Self.lines(answer) { StandardStream.output.line(line) } }
            let isWell = (answer["shards"]?.elements ?? []).allSatisfy {
                $0["writer"]?.string?.isEmpty == false && $0["standing"]?.string != "cut_off"
            }
            if !isWell { end(1) }
        }

        private static func lines(_ answer: JSONValue) -> [String] {
            let (hubs, shards) = (answer["hubs"]?.elements ?? [], answer["shards"]?.elements ?? [])
            var rows = [["HUB", "ADDRESS", "STARTED", "WRITES", "LAG"]]
            for hub in hubs {
                let started = hub["startedAt"]?.int.map(UserText.time) ?? "-"
                let name = (hub["id"]?.string ?? "") + (hub["answers"]?.bool == true ? " (answers)" : "")
                rows.append([
                    name, hub["address"]?.string ?? "", started, "\(hub["writes"]?.int ?? 0) of \(shards.count)", "\(hub["lag"]?.int ?? 0)",
                ])
            }
            var table = [["SHARD", "WRITER", "HERE", "RECORDS", "APPLIED", "LAG MS"]]
            for shard in shards {
                let writer = shard["writer"]?.string ?? ""
                table.append([
                    "\(shard["number"]?.int ?? 0)", writer.isEmpty ? "none" : writer, shard["standing"]?.string ?? "",
                    "\(shard["last"]?.int ?? 0)", "\(shard["applied"]?.int ?? 0)", "\(shard["lagMs"]?.int ?? 0)",
                ])
            }
            return ["cluster \(answer["name"]?.string ?? "")", ""] + TextTable.lines(rows) + [""] + TextTable.lines(table)
        }
    }
}
