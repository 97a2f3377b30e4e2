import Accounts
import DispatchNet
import HubEngine
import JSONTree
import Scheduling

/// The parts of `/.metrics` about the process, latencies, refusals, sign-ins and traffic.
extension Server {
    func addProcess(to page: inout MetricsPage) {
        let facts = ProcessFacts()
        page.info("vigla_build_info", "The program that runs.", [("version", settings.version), ("swift", Self.compiler)])
        page.thousandths("vigla_start_time_seconds", "When it started, in seconds since 1970.", "gauge", Int(startedAt.wallMs))
        page.thousandths(
            "vigla_uptime_seconds", "How long it runs.", "gauge", Int((scheduler.steadyNs - startedAt.steadyNs) / 1_000_000))
        page.gauge("vigla_resident_memory_bytes", "Memory of the process.", facts.residentBytes)
        page.thousandths("vigla_cpu_seconds_total", "Processor time of the process.", "counter", facts.cpuMs)
        page.gauge("vigla_open_descriptors", "Descriptors that are open.", facts.descriptors.open)
        page.gauge("vigla_descriptors_limit", "Descriptors that may be open.", facts.descriptors.most)
        if let folder = settings.dataFolder {
            page.gauge("vigla_data_file_bytes", "Sizes of the files of the data folder.", label: "file", ProcessFacts.dataFiles(in: folder))
        }
        if let end = settings.tls?.identity.certificateEnd {
            page.gauge("vigla_certificate_expiry_seconds", "When the certificate in use ends, in seconds since 1970.", Int(end))
        }
    }

    private static var compiler: String {
        #if swift(>=6.4)
        "6.4 or later"
        #elseif swift(>=6.3)
        "6.3"
        #else
        "6.2"
        #endif
    }

    func addDetails(to page: inout MetricsPage) {
        let databases = hub.all.sorted { $0.name < $1.name }
        let extents = databases.compactMap { database in database.extent.map { (database.name, $0) } }
        page.gauge(
            "vigla_data_keys", "Keys of the data on all levels, as they were counted last.", label: "namespace",
            extents.map { ($0.0, $0.1.keys) })
        page.gauge(
            "vigla_data_bytes", "Bytes of the data as JSON, as they were counted last.", label: "namespace",
            extents.map { ($0.0, $0.1.bytes) })
        page.histogram(
            "vigla_request_seconds",
            "How long requests took at most, from their submission: reads until carried out, writes until durable.",
            databases.flatMap { database in
                Latencies.Kind.allCases.filter { $0 != .journal }.map { kind in
                    ("namespace=\"\(database.name)\",kind=\"\(kind)\"", database.latencies.reading(kind))
                }
            })
        page.histogram(
            "vigla_journal_seconds", "How long batches of commits took to become durable.",
            databases.map { ("namespace=\"\($0.name)\"", $0.latencies.reading(.journal)) })
        page.counter(
            "vigla_rule_refusals_total", "Refusals by the rules, by the nearest place in their file.",
            labels: ("namespace", "request", "place"),
            databases.flatMap { database in
                database.refusals.reading.map { (database.name, $0.request.rawValue, $0.pattern, $0.count) }
            })
        page.counter(
            "vigla_event_bytes_total", "Bytes of events for observers, by the first key of their places.", labels: "namespace", "path",
            databases.flatMap { database in database.eventBytes.reading.map { (database.name, $0.path, $0.bytes) } })
        let accounts = authentication.projects.compactMap { project in
            project.accounts.map { (project.database ?? settings.namespace, $0) }
        }
        if !accounts.isEmpty {
            page.counter(
                "vigla_sign_ins_total", "Sign-ups, sign-ins and refreshes, by their outcome.", labels: ("namespace", "way", "outcome"),
                accounts.flatMap { database, accounts in
                    accounts.signIns.reading.map { (database, $0.way, $0.outcome, $0.count) }
                })
        }
    }
}
