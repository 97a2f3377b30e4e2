import ArgumentParser
import Dispatch
import Glibc
import JSONTree
import Journal
import SQLiteJournal
import Synchronization
import ViglaClient

/// `vigla import URL|FOLDER FILE`
struct Import: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Replace the content of a hub, or of a place in it, by a JSON file.",
        discussion: """
            The whole file is read and checked first; then it becomes the content in one commit, all or nothing. It is the JSON of \
            'vigla export' and of Firebase's own export: priorities as ".priority" and ".value", arrays as objects with keys 0, 1, …. \
            It replaces the old content, and the pending onDisconnect writes there. Rules and secrets stay. A missing folder is \
            created; in one with several namespaces --namespace names one. A hub takes files of up to 256 MiB and asks for an \
            administrator (--auth and others, see 'vigla rules deploy --help'); a stopped hub's folder takes any size. The content is \
            stored unchanged: rules neither change it nor add to it, unless --derive asks for that. Counters are right a moment later.

              vigla import ./data export.json
              vigla import http://127.0.0.1:9000/users users.json
            """)

    /// Largest body of a REST write (contract §4.1).
    private static let hubBytes = 256 << 20

    @OptionGroup var options: TransferOptions
    @Flag(help: "Have a running hub apply its rules as to other writes: .default, .drop, .copy and others.") var derive = false

    func validate() throws {
        guard derive, case .folder = try options.place else { return }
        throw ValidationError("--derive is for an import into a running hub: in a folder there are no rules to follow.")
    }

    func run() throws {
        let summary = TransferSummary()
        let source = ImportSource(options.file)
        switch try options.place {
        case .folder(let folder):
            store(source.read(depth: 0), folder)
            summary.report("imported", places: nil, bytes: source.bytes.count, "into \(folder)")
        case .hub(let url):
            guard source.bytes.count <= Self.hubBytes else {
                fail("\(source.name) has \(source.bytes.count) bytes; a running hub takes \(Self.hubBytes). Stop the hub and import into "
                    + "its data folder.")
            }
            _ = source.read(depth: url.path.depth)
            let address = options.address(url)
            let target = "\(url.resource)?print=silent&derive=\(derive)\(address.namespaceItem)"
            let (status, body) = HubRequest.send(
                "PUT", target, to: address, tls: options.tlsOptions, credential: options.credential.read(), body: Array(source.bytes))
            guard status == 204 || status == 200 else {
                HubRequest.refused(status, body, by: address, options.credential, advice: "Nothing was changed.")
            }
            summary.report("imported", places: nil, bytes: source.bytes.count, "into \(url)")
        }
    }

    private func store(_ root: Node, _ folder: String) {
        let data = DataFolder(folder, namespace: options.namespace, acceptsLoss: options.acceptLoss)
        let before = data.recover()
        var operations = before.pending.map { JournalOperation.pending(.forget(session: $0.id)) } + [.set(.root, root)]
        // The imported content counts as written now, so remove the previous write times.
        before.written.forEach { path, _ in operations.append(.written(path, nil)) }
        for item in before.pendingRows.items { operations.append(.pendingRows(.end(item.id))) }
        before.deliveries.forEach { id, _ in operations.append(.delivery(id, .null)) }
        if !before.watchHits.isEmpty { operations.append(.watch(.forget(.root))) }
        for number in before.written.open.keys { operations.append(.open(number, nil)) }
        let outcome = Outcome()
        let journal = data.store.journal(for: data.namespace)
        // The next epoch, like every writer that takes a namespace over (`OpenedJournal.epoch`).
        let batch = JournalBatch(sequence: before.sequence + 1, after: before.sequence, operations: operations, epoch: before.epoch + 1)
        journal.append(batch) { outcome.set($0) }
        if case .failure(let error) = outcome.wait() { fail("\(error)") }
        data.close()
        report(data, replaced: before.root)
    }

    /// Reports what an import has changed in a used folder; nothing for a new one.
    private func report(_ data: DataFolder, replaced before: Node) {
        if before.exists {
            let count = before.childCount
            let what = count == 0 ? "a single value" : count == 1 ? "one child" : "\(count) children"
            StandardStream.error.line("vigla: replaced what namespace \(data.namespace) held: \(what) at its root")
        } else if !data.namespaces.isEmpty, !data.namespaces.contains(data.namespace) {
            let others = data.namespaces.joined(separator: ", ")
            StandardStream.error.line("vigla: namespace \(data.namespace) is new in this folder, which also holds: \(others)")
        }
    }

    /// Passes the result from the journal's queue to the waiting thread.
    private final class Outcome: Sendable {
        private let result = Mutex<Result<Void, JournalError>?>(nil)
        private let isThere = DispatchSemaphore(value: 0)

        func set(_ result: Result<Void, JournalError>) {
            self.result.withLock { $0 = result }
            isThere.signal()
        }

        func wait() -> Result<Void, JournalError> {
            isThere.wait()
            return result.withLock { $0 } ?? .failure(.closed)
        }
    }
}
