import Dispatch
import Journal
import Logging
import SQLiteJournal
import Synchronization

/// The settings of all hubs of a cluster: rules, former rules, secrets. Each hub's changes are in a log, and in every hub's data folder.
///
/// ```
/// put, replace ─► the log, behind the newest ─► stored ────────────────┐
///                    └─ another came first: apply it, try again ─┐     ▼
///                                           the log ─► change ─► values ─► data folder, then the place ─► listeners
/// ```
/// Confined to `queue`, which waits for the log within time limits.
final class SharedSettings: SettingStore, @unchecked Sendable {
    // Sendable: `queue` and the references are constant, `listeners` is thread-safe, the rest is confined to `queue`.
    typealias Completion = @Sendable (Result<Void, JournalError>) -> Void

    /// The store-wide setting for the place up to which the data folder has followed. A folder without it has not joined a cluster.
    static let place = "cluster.settings"
    /// Settings with this prefix belong to the hub alone.
    private static let ownPrefix = "cluster."

    let log: SharedStream
    private let store: JournalStore
    private let logger: Logger
    /// Time limit of the first start on a folder.
    private let patienceMs: Int
    /// Time limit of a start on a folder that has followed before, while the servers cannot be reached.
    private static let rejoinMs = 3_000
    /// Time limit of one change, with all its retries.
    private static let changeMs = 5_000

    private let queue = DispatchQueue(label: "vigla.cluster.settings")
    private let listeners = Mutex<[@Sendable (SettingChange) -> Void]>([])
    private var isFollowing = false
    /// Whether the folder's settings were merged with those of the log.
    private var isJoined = false
    /// The last message applied, and the last one from which a start may follow.
    private var newest = SharedPlace()
    private var complete = SharedPlace()
    /// The values of the namespaces that were read.
    private var values: [String?: [String: [UInt8]]] = [:]
    /// The disk has refused a value: the next start reads it from the log again.
    private var isBehindOnDisk = false

    init(_ store: JournalStore, _ log: SharedStream, patienceMs: Int, _ logger: Logger) {
        (self.store, self.log, self.patienceMs, self.logger) = (store, log, patienceMs, logger)
    }

    var isShared: Bool { true }

    func whenChanged(_ listener: @escaping @Sendable (SettingChange) -> Void) { listeners.withLock { $0.append(listener) } }

    func settings(of namespace: String?) throws(JournalError) -> [String: [UInt8]] {
        let found = queue.sync { () -> Result<[String: [UInt8]], JournalError> in
            do throws(JournalError) {
                try join()
                return .success(try known(namespace))
            } catch { return .failure(error) }
        }
        return try found.get()
    }

    func put(_ value: [UInt8]?, setting name: String, of namespace: String?, completion: @escaping Completion) {
        let change = SettingChange(value, setting: name, of: namespace)
        queue.async { [self] in completion(Result { () throws(JournalError) in try append(change, if: nil) }) }
    }

    func replace(
        _ former: [UInt8]?, by value: [UInt8]?, setting name: String, of namespace: String?, completion: @escaping Completion
    ) {
        let change = SettingChange(value, setting: name, of: namespace)
        queue.async { [self] in completion(Result { () throws(JournalError) in try append(change, if: .some(former)) }) }
    }

    /// The known values of a namespace. On the queue.
    private func known(_ namespace: String?) throws(JournalError) -> [String: [UInt8]] {
        if let known = values[namespace] { return known }
        let stored = try store.settings(of: namespace)
        values[namespace] = stored
        return stored
    }

    // MARK: Joining

    /// Follows the log from this folder's place. The first hub of a cluster contributes its settings; a hub that joins later gets the cluster's.
    private func join() throws(JournalError) {
        if isJoined { return }
        let place = try known(nil)[Self.place].flatMap(SharedPlace.init(stored:))
        if !isFollowing {
            isFollowing = true
            (newest, complete) = (place ?? SharedPlace(), place ?? SharedPlace())
            log.follow(from: place) { [weak self] in self?.hop { try? $0.takeArrived() } }
        }
        let isUpToDate = log.waitForAll(withinMs: place == nil ? patienceMs : Self.rejoinMs) { try? self.takeArrived() }
        if place == nil {
            guard isUpToDate else {
                throw .unavailable(reason: "the settings of the cluster were not received within \(patienceMs) ms")
            }
            try settle()
        } else if !isUpToDate {
            logger.warning("rules and secrets are those of before, until the cluster can be reached")
        }
        isJoined = true
        try takeArrived()
    }

    /// Decides between the folder's previous settings and those of the cluster.
    private func settle() throws(JournalError) {
        var own: [SettingChange] = []
        for namespace in try store.namespacesWithSettings() {
            for (name, value) in try known(namespace).sorted(by: { $0.key < $1.key }) where !name.hasPrefix(Self.ownPrefix) {
                own.append(SettingChange(value, setting: name, of: namespace))
            }
        }
        try takeArrived()
        if newest.sequence == 0 {
            for change in own { try appendJoined(change, if: nil) }
        } else if !own.isEmpty {
            for change in own where seen[change.namespace]?.contains(change.name) != true {
                values[change.namespace]?[change.name] = nil
                store.put(nil, setting: change.name, of: change.namespace) { _ in }
            }
            logger.notice("the rules and secrets of the cluster hold; this folder's from before are dropped", metadata: [
                "settings": "\(own.count)",
            ])
        }
        seen = [:]
        storePlace { _ in }
    }

    /// Settings that the log has brought so far while joining.
    private var seen: [String?: Set<String>] = [:]

    private func hop(_ body: @escaping @Sendable (SharedSettings) -> Void) { queue.async { [self] in body(self) } }

    // MARK: Changes

    /// - Parameter former: the value that the setting must have.
    private func append(_ change: SettingChange, if former: [UInt8]??) throws(JournalError) {
        try join()
        try appendJoined(change, if: former)
    }

    private func appendJoined(_ change: SettingChange, if former: [UInt8]??) throws(JournalError) {
        let end = DispatchTime.now() + .milliseconds(Self.changeMs)
        let record = change.encoded
        repeat {
            try takeArrived()
            if let former, try known(change.namespace)[change.name] != former { throw .changed(setting: change.name) }
            switch log.append(record, after: newest) {
            case .stored(let place):
                (newest, complete) = (place, place)
                return try apply(change)
            case .conflict(let last):
                while newest.sequence < last, DispatchTime.now() < end { try takeArrived(waitMs: 100) }
            case .refused(let error): throw error
            case .unknown(let reason): throw .unknown(reason: "the cluster's log did not answer: \(reason)")
            }
        } while DispatchTime.now() < end
        throw .unavailable(reason: "other hubs change settings at the same time")
    }

    /// Applies other hubs' records, and own records that are not applied yet.
    private func takeArrived(waitMs: Int = 0) throws(JournalError) {
        for entry in log.receive(waitMs: waitMs) where entry.place.sequence > newest.sequence {
            newest = entry.place
            if entry.isComplete { complete = entry.place }
            guard let record = entry.record else { continue }
            guard let change = SettingChange(decoding: record), !change.name.hasPrefix(Self.ownPrefix) else {
                logger.error("a record of the cluster's log is damaged and is ignored by all hubs", metadata: [
                    "log": "\(log.log.name)", "message": "\(entry.place.sequence)",
                ])
                continue
            }
            if !isJoined { seen[change.namespace, default: []].insert(change.name) }
            try apply(change)
        }
    }

    /// Returns when the data folder has stored the change, or refused it.
    private func apply(_ change: SettingChange) throws(JournalError) {
        _ = try known(change.namespace)
        values[change.namespace]?[change.name] = change.value
        for listener in listeners.withLock({ $0 }) { listener(change) }
        store.put(change.value, setting: change.name, of: change.namespace) { [weak self] result in self?.stored(result) }
        let done = DispatchSemaphore(value: 0)
        storePlace { _ in done.signal() }
        done.wait()
    }

    private func stored(_ result: Result<Void, JournalError>) {
        guard case .failure(let error) = result else { return }
        logger.error("the data folder does not take a setting that the cluster has", metadata: ["reason": "\(error)"])
        hop { $0.isBehindOnDisk = true }
    }

    private func storePlace(_ done: @escaping Completion) {
        if isBehindOnDisk { return done(.success(())) }
        store.put(complete.stored, setting: Self.place, of: nil, completion: done)
    }
}

/// A change as a record of the log.
///
///     [version][namespace?][name][value?]
extension SettingChange {
    private static let version: UInt8 = 1

    var encoded: [UInt8] {
        var bytes = [Self.version]
        bytes.append(optional: namespace?.utf8)
        bytes.append(counted: name.utf8)
        bytes.append(optional: value)
        return bytes
    }

    /// Nil for bytes that no hub has written.
    init?(decoding record: [UInt8]) {
        let read = record.withUnsafeBytes { bytes -> SettingChange? in
            var reader = ByteReader(bytes)
            guard reader.integer(UInt8.self) == Self.version, let namespace = reader.optional({ $0.text() }),
                let name = reader.text(), !name.isEmpty, let value = reader.optional({ $0.counted().map { Array($0) } }), reader.isAtEnd
            else { return nil }
            return SettingChange(value, setting: name, of: namespace)
        }
        guard let read else { return nil }
        self = read
    }
}

extension SharedPlace {
    /// The form stored in the data folder.
    var stored: [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(littleEndian: created)
        bytes.append(littleEndian: sequence)
        bytes.append(littleEndian: id)
        return bytes
    }

    init?(stored bytes: [UInt8]) {
        let read = bytes.withUnsafeBytes { bytes -> SharedPlace? in
            var reader = ByteReader(bytes)
            guard let created = reader.integer(Int64.self), let sequence = reader.integer(UInt64.self),
                let id = reader.integer(UInt64.self), reader.isAtEnd
            else { return nil }
            return SharedPlace(created: created, sequence: sequence, id: id)
        }
        guard let read else { return nil }
        self = read
    }
}
