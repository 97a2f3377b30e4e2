import Accounts
import HubEngine
import Journal
import JSONTree
import Logging
import Synchronization

/// The databases that exist: those of the configuration, and those that administrators have created. A development hub opens any other at
/// its first request; those are not listed here.
///
/// The setting `databases` of the whole store has the created ones, so that they exist after a restart:
///
///     {"default":"watchme","databases":[{"name":"planner","accounts":"own","madeAt":1790000000000}],"removed":["fitness"]}
///
/// `default` is the database whose accounts are the hub's. `removed` are databases whose content is gone and whose accounts may still exist.
final class DatabaseCatalog: Sendable {
    /// A database that an administrator has created.
    struct Created: Sendable {
        let name: String
        let isShared: Bool
        /// ms since the epoch.
        let madeAt: Int64
    }

    /// The most databases that administrators may create. Each has a queue, and with accounts of its own a file and two threads.
    static let most = 1_000

    private struct State {
        var created: [Created] = []
        var removed: Set<String> = []
        /// The database that is being created or removed. No request opens it meanwhile.
        var changing: String?
    }

    /// Settings of databases that are kept in memory only.
    let smallSettings = SmallSettings()
    private let settings: ServerSettings
    private let store: any SettingStore
    private let state: Mutex<State>

    private static let setting = "databases"

    /// Reads the created databases, and deletes what is left of removed ones. Blocks.
    /// - Throws: if the hub's accounts belong to another database than the default one.
    init(_ settings: ServerSettings, _ store: any SettingStore) throws(ServerError) {
        (self.settings, self.store) = (settings, store)
        let stored: JSONValue
        do throws(JournalError) {
            stored = try store.settings(of: nil)[Self.setting].flatMap { try? JSONValue($0) } ?? .null
        } catch { throw .cannotOpen("\(error)") }
        var state = State()
        for entry in stored["databases"]?.elements ?? [] {
            guard let name = entry["name"]?.string, case .int(let madeAt)? = entry["madeAt"] else { continue }
            state.created.append(Created(name: name, isShared: entry["accounts"]?.string == "shared", madeAt: madeAt))
        }
        let configured = settings.databases.map(\.name)
        let removed = (stored["removed"]?.elements ?? []).compactMap(\.string)
        for name in removed where !configured.contains(name) {
            if let folder = settings.dataFolder { AccountStore.remove(from: folder, of: name) }
        }
        let owner = stored["default"]?.string
        if let owner, owner != settings.namespace, settings.accounts != nil, Set(configured + state.created.map(\.name)).count > 1 {
            throw .cannotOpen(
                "The accounts in \(AccountStore.fileName) are those of the database \(owner), and \(settings.namespace) would get them. Name "
                    + "\(owner) first: --namespace \(owner) --namespace …")
        }
        self.state = Mutex(state)
        if !store.isShared, owner != settings.namespace || !removed.isEmpty { write { _ in } }
    }

    // MARK: Reading, from any thread

    /// The databases that are opened at the start, the default first.
    var names: [String] {
        let configured = settings.databases.map(\.name)
        return configured + state.withLock { $0.created.map(\.name) }.filter { !configured.contains($0) }
    }

    func isConfigured(_ name: String) -> Bool { settings.databases.contains { $0.name == name } }

    /// Whether a database exists, or is created by its first request.
    func mayOpen(_ name: String) -> Bool {
        if isConfigured(name) { return true }
        let (isCreated, isChanging) = state.withLock { state in (state.created.contains { $0.name == name }, state.changing == name) }
        return isCreated || settings.isDev && !isChanging && Namespace.isValid(name)
    }

    /// When a created database was created, ms since the epoch; nil for others.
    func madeAt(_ name: String) -> Int64? { state.withLock { $0.created.first { $0.name == name }?.madeAt } }

    /// Whose accounts a database has.
    func accounts(of name: String) -> DatabaseAccounts {
        if name == settings.namespace { return .shared }
        if let database = settings.databases.first(where: { $0.name == name }) { return database.accounts }
        return state.withLock { $0.created.first { $0.name == name } }.map { $0.isShared ? .shared : .own(nil) } ?? .shared
    }

    /// The limits of a database.
    func limits(of name: String) -> EngineLimits {
        var limits = settings.limits.engine
        if let rate = settings.databases.first(where: { $0.name == name })?.writeRate { limits.writeRate = rate }
        return limits
    }

    // MARK: Changes, one at a time

    /// Begins the creation or removal of a database; false while another one is created or removed.
    func begin(_ name: String) -> Bool {
        state.withLock { state in
            guard state.changing == nil else { return false }
            state.changing = name
            return true
        }
    }

    func end() { state.withLock { $0.changing = nil } }

    /// Whether an administrator may create one more.
    var isFull: Bool { state.withLock { $0.created.count >= Self.most } }

    /// Adds a database that is being created, and stores the list.
    /// - Parameter done: called once, on an arbitrary queue, when the database exists or with the reason why not.
    func add(_ database: Created, _ done: @escaping @Sendable (JournalError?) -> Void) {
        state.withLock { state in
            state.created.append(database)
            state.removed.remove(database.name)
        }
        write { [self] error in
            if error != nil { state.withLock { $0.created.removeAll { $0.name == database.name } } }
            done(error)
        }
    }

    /// The setting without a database, whose accounts may still exist.
    func setting(without name: String) -> JournalSetting {
        let left = state.withLock { state in
            var left = state
            left.created.removeAll { $0.name == name }
            left.removed.insert(name)
            return left
        }
        return JournalSetting(Self.setting, bytes(left))
    }

    /// The content of a database is gone.
    func removeEntry(_ name: String) {
        state.withLock { state in
            state.created.removeAll { $0.name == name }
            state.removed.insert(name)
        }
    }

    /// Everything of a database is gone. If that cannot be stored, the next start finds nothing left of it.
    func forget(_ name: String, _ done: @escaping @Sendable () -> Void) {
        state.withLock { _ = $0.removed.remove(name) }
        write { _ in done() }
    }

    private func write(_ done: @escaping @Sendable (JournalError?) -> Void) {
        store.put(bytes(state.withLock { $0 }), setting: Self.setting, of: nil) { result in
            if case .failure(let error) = result { done(error) } else { done(nil) }
        }
    }

    private func bytes(_ state: State) -> [UInt8] {
        let databases = state.created.map { database -> JSONValue in
            [
                "name": .string(database.name), "accounts": .string(database.isShared ? "shared" : "own"),
                "madeAt": .int(database.madeAt),
            ]
        }
        let value: JSONValue = [
            "default": .string(settings.namespace), "databases": .array(databases),
            "removed": .array(state.removed.sorted().map(JSONValue.string)),
        ]
        return value.bytes
    }
}
