import Accounts
import Dispatch
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
/// `default` is the database whose accounts are the hub's. `removed` are databases whose content is gone and whose accounts may still
/// exist: the next start deletes these before it opens anything.
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
        /// The database whose accounts are the hub's; nil while that is not known.
        var owner: String?
        /// The database that is being created or removed. No request opens it before it is stored.
        var changing: (name: String, isStored: Bool)?
    }

    /// Settings of databases that are kept in memory only.
    let smallSettings = SmallSettings()
    private let settings: ServerSettings
    private let store: any SettingStore
    private let state: Mutex<State>

    private static let setting = "databases"

    /// Reads the created databases, and deletes what is left of removed ones. Blocks.
    /// - Throws: if the hub's accounts belong to another database than the default one, if a database has the name of the hub's project, or
    ///   if what is left of a removed database cannot be deleted.
    init(_ settings: ServerSettings, _ storage: any JournalStorage) throws(ServerError) {
        (self.settings, store) = (settings, storage.settingStore)
        let stored: JSONValue
        do throws(JournalError) {
            stored = try store.settings(of: nil)[Self.setting].flatMap { try? JSONValue($0) } ?? .null
        } catch { throw .cannotOpen("\(error)") }
        var state = State()
        for entry in stored["databases"]?.elements ?? [] {
            guard let name = entry["name"]?.string, case .int(let madeAt)? = entry["madeAt"] else { continue }
            state.created.append(Created(name: name, isShared: entry["accounts"]?.string == "shared", madeAt: madeAt))
        }
        // The configuration may have named it again since: the users of the removed one must not return.
        let removed = (stored["removed"]?.elements ?? []).compactMap(\.string)
        for name in removed {
            do throws(AccountStoreFault) {
                if let folder = settings.dataFolder { try AccountStore.remove(from: folder, of: name) }
            } catch { throw .cannotOpen("The accounts of \(name), which was removed, cannot be deleted. \(error)") }
        }
        let owner = stored["default"]?.string
        state.owner = try Self.owner(owner, settings, storage, hasCreated: !state.created.isEmpty)
        let hasChanged = state.owner != owner
        self.state = Mutex(state)
        if let project = settings.accounts?.project, project != settings.namespace, names.contains(project), accounts(of: project).isOwn {
            throw .cannotOpen(
                "The database \(project) has the name of the hub's project (--project), and would get requests for the hub's accounts. "
                    + "Choose another project, or remove the database.")
        }
        if store.isShared { return }
        if !removed.isEmpty || hasChanged && owner != nil {
            if let error = writeNow() { throw .cannotOpen("\(error)") }
        } else if hasChanged {
            // The first start with accounts. A disk that refuses is no reason not to serve: the next start tries again.
            write { _ in }
        }
    }

    /// The database whose accounts are the hub's from now on.
    /// - Parameter stored: the one until now; nil if none was recorded.
    /// - Throws: if the accounts belong to another database, and the folder is not as good as new.
    private static func owner(
        _ stored: String?, _ settings: ServerSettings, _ storage: any JournalStorage, hasCreated: Bool
    ) throws(ServerError) -> String? {
        let name = settings.namespace
        // The databases of a cluster share its accounts, and on a development hub everyone is an administrator.
        if stored == name || settings.accounts == nil || settings.isDev || storage.settingStore.isShared { return stored }
        let others = storage.namespaces().filter { $0 != name }
        guard let stored else {
            // A folder from before the record: only one that holds this database, or none, is certainly this one's.
            return others.isEmpty || storage.holds(name) ? name : nil
        }
        let files = settings.dataFolder.map(AccountStore.fileNames) ?? []
        let isAsNew = others.isEmpty && !hasCreated && settings.databases.count == 1 && files.allSatisfy { $0 == AccountStore.fileName }
        if isAsNew { return name }
        throw .cannotOpen(
            "The accounts in \(AccountStore.fileName) are those of the database \(stored), and \(name) would get them. Name "
                + "\(stored) first (--namespace \(stored) --namespace …), or choose another folder with --data.")
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
        return state.withLock { state in
            if let changing = state.changing, changing.name == name { return changing.isStored }
            return state.created.contains { $0.name == name } || settings.isDev && Namespace.isValid(name)
        }
    }

    /// Whether a database is being created or removed.
    func isChanging(_ name: String) -> Bool { state.withLock { $0.changing?.name == name } }

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
            state.changing = (name, isStored: false)
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
            state.withLock { state in
                if error == nil { state.changing?.isStored = true } else { state.created.removeAll { $0.name == database.name } }
            }
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

    /// Everything of a database is gone. If that cannot be stored, it stays in the list, which the next change or start stores.
    func forget(_ name: String, _ done: @escaping @Sendable (JournalError?) -> Void) {
        state.withLock { _ = $0.removed.remove(name) }
        write { [self] error in
            if error != nil { state.withLock { _ = $0.removed.insert(name) } }
            done(error)
        }
    }

    /// Stores the list and waits for that. Only before the hub serves.
    private func writeNow() -> JournalError? {
        let done = DispatchSemaphore(value: 0)
        let failure = Mutex<JournalError?>(nil)
        write { error in
            failure.withLock { $0 = error }
            done.signal()
        }
        done.wait()
        return failure.withLock { $0 }
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
        var members: [JSONValue.Member] = []
        if let owner = state.owner { members.append(.init("default", .string(owner))) }
        members.append(.init("databases", .array(databases)))
        members.append(.init("removed", .array(state.removed.sorted().map(JSONValue.string))))
        return JSONValue.object(members).bytes
    }
}
