import Journal
import Logging
import Scheduling
import SQLiteJournal

#if VIGLA_CLUSTER
import ClusterJournal
#endif

/// The cluster options of `vigla serve`.
struct ClusterOptions {
    let servers: [String]
    let name: String
    /// The address under which this hub is shown; nil to use its own address and port.
    let address: String?
    /// Certificates to trust in addition to the system's; this hub's own, and its key.
    let tls: (authority: String?, certificate: String?, key: String?)

    static let defaultName = "vigla"

    /// The message of a hub that was built without libnats.
    static let absent = """
        this program was built without libnats, so it can be no hub of a cluster: install it and build again \
        (apt-get install libnats-dev, then make release; docs/cluster.md)
        """

    static func isName(_ text: String) -> Bool {
        (1...32).contains(text.utf8.count) && text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "-"), UInt8(ascii: "_"): true
            default: false
            }
        }
    }

    static func isAddress(_ text: String) -> Bool {
        ["http://", "https://"].contains { text.hasPrefix($0) && text.count > $0.count } && text.utf8.count <= 255
    }

    static func servers(_ text: String) -> [String]? {
        let servers = text.split(separator: ",").map { $0.trimmingPrefix(" ") }.map(String.init)
        func areAll(_ scheme: String) -> Bool { servers.allSatisfy { $0.hasPrefix(scheme) && $0.count > scheme.count } }
        return !servers.isEmpty && (areAll("nats://") || areAll("tls://")) ? servers : nil
    }

    /// The addresses in a form that may be shown, without users, passwords and tokens: `nats://…@host`.
    static func withoutSecrets(_ text: String) -> String { text.replacing(/:\/\/[^@,]*@/) { _ in "://…@" } }

    #if VIGLA_CLUSTER
    static let isThere = true

    /// Starts to follow the cluster's logs.
    func join(with store: JournalStore, _ scheduler: Scheduler, _ logger: Logger) throws(JournalError) -> any JournalStorage {
        var settings = ClusterSettings(name: name)
        settings.address = address
        let connection: NatsConnection
        var connecting = NatsConnection.Settings(servers: servers, name: "vigla \(name)")
        connecting.authority = tls.authority
        if let file = tls.certificate, let key = tls.key { connecting.certificate = (file, key) }
        do throws(NatsConnection.Fault) {
            connection = try NatsConnection(connecting, logger: logger)
        } catch { throw .unavailable(reason: "\(error)") }
        logger.info("one of a cluster", metadata: ["cluster": "\(name)"])
        return try ClusterStorage(settings, over: connection, in: store, scheduler: scheduler, logger: logger)
    }
    #else
    static let isThere = false

    func join(with store: JournalStore, _ scheduler: Scheduler, _ logger: Logger) throws(JournalError) -> any JournalStorage { store }
    #endif
}
