import Accounts
import Dispatch
import DispatchNet
import HTTPTypes
import HubEngine
import Journal
import JSONTree
import Logging
import Scheduling
import SecurityRules

/// Databases that administrators create and remove while the hub runs. Callers authorise the administrator of the hub first.
///
/// ```
/// create   rules stored ─► in the catalog, durable ─► opened ─► answer
///              └─ refused by the disk, or not opened: everything is taken back
/// remove   content, settings and catalog entry gone in one transaction ─► clients notified and closed ─► accounts gone ─► answer
///              └─ refused by the disk: the database continues
/// ```
extension Server {
    /// Queue for the work of creating and removing that blocks.
    static let changes = DispatchQueue(label: "vigla.databases")

    /// Creates an empty database.
    /// - Parameters:
    ///   - isShared: whether it has the hub's accounts, else its own.
    ///   - rules: its rules; nil denies everything until rules are deployed.
    ///   - done: called once, on an arbitrary queue, when the database takes clients and exists after a restart.
    func createDatabase(_ name: String, isShared: Bool, rules: RuleSet?, _ done: @escaping @Sendable (DatabaseFault?) -> Void) {
        guard Namespace.isValid(name) else { return done(.name) }
        if storage.cluster != nil { return done(.cluster) }
        if !isShared, name == accounts?.settings.project, name != settings.namespace { return done(.project(name)) }
        guard catalog.begin(name) else { return done(.busy) }
        let end: @Sendable (DatabaseFault?) -> Void = { [catalog] fault in
            catalog.end()
            done(fault)
        }
        if catalog.names.contains(name) || hub.database(name) != nil { return end(.exists(name)) }
        if catalog.isFull { return end(.tooMany) }
        Self.changes.async { [self] in
            do throws(JournalError) {
                if try holds(name) { return end(.held(name)) }
            } catch { return end(.notStored("\(error)")) }
            let stored = rules.map { StoredRules(source: $0.text, after: "").bytes }
            storage.settingStore.put(stored, setting: StoredRules.setting, of: name) { [self] result in
                if case .failure(let error) = result { return end(.notStored("\(error)")) }
                let entry = DatabaseCatalog.Created(name: name, isShared: isShared, madeAt: scheduler.wallMs)
                catalog.add(entry) { [self] error in
                    if let error { return takeBack(name) { end(.notStored("\(error)")) } }
                    hub.open(name) { [self] database in
                        guard database != nil else { return takeBack(name) { end(.notOpened) } }
                        if let project = authentication.project(of: name), project.database == name { applyAccountChanges(of: project) }
                        logger.notice("database created", metadata: ["namespace": "\(name)", "accounts": isShared ? "shared" : "own"])
                        end(nil)
                    }
                }
            }
        }
    }

    /// Whether the folder has anything of a database: content, rules, secrets or accounts. Blocks.
    private func holds(_ name: String) throws(JournalError) -> Bool {
        if storage.holds(name) { return true }
        if let folder = settings.dataFolder, AccountStore.exists(in: folder, of: name) { return true }
        return try !storage.settingStore.settings(of: name).isEmpty
    }

    /// Removes what a creation that failed has left.
    private func takeBack(_ name: String, _ done: @escaping @Sendable () -> Void) {
        storage.remove(name, noting: catalog.setting(without: name)) { [self] result in
            if case .failure(let error) = result {
                logger.error("a database that was not created is left", metadata: ["namespace": "\(name)", "reason": "\(error)"])
                return done()
            }
            catalog.removeEntry(name)
            authentication.remove(name) { [self] fault in
                guard let fault else { return catalog.forget(name) { _ in done() } }
                logger.error("accounts could not be deleted", metadata: ["namespace": "\(name)", "reason": "\(fault)"])
                done()
            }
        }
    }

    /// Removes a database with its content, rules, secrets and own accounts. Its clients are notified and closed.
    /// - Parameter done: called once, on an arbitrary queue, when everything is gone. After a kill before that the database is there as it
    ///   was, or gone.
    func removeDatabase(_ name: String, _ done: @escaping @Sendable (DatabaseFault?) -> Void) {
        guard Namespace.isValid(name) else { return done(.unknown(name)) }
        if storage.cluster != nil { return done(.cluster) }
        if catalog.isConfigured(name) { return done(.configured(name)) }
        guard catalog.begin(name) else { return done(.busy) }
        let end: @Sendable (DatabaseFault?) -> Void = { [catalog] fault in
            catalog.end()
            done(fault)
        }
        Self.changes.async { [self] in
            do throws(JournalError) {
                let isOpen = catalog.names.contains(name) || hub.database(name) != nil
                if !isOpen, try !holds(name) { return end(.unknown(name)) }
            } catch { return end(.notStored("\(error)")) }
            // No deploy may come between: its rules would be those of the next database of this name.
            rulesInForce.removing(name) { [self] finished in
                storage.remove(name, noting: catalog.setting(without: name)) { [self] result in
                    if case .failure(let error) = result {
                        finished(false)
                        return end(.notStored("\(error)"))
                    }
                    catalog.removeEntry(name)
                    finished(true)
                    hub.remove(name) { [self] database in
                        close(database) { [self] in
                            records.recentRefusals.forget(name)
                            smallSettings.forget(name)
                            authentication.remove(name) { [self] fault in
                                if let fault {
                                    logger.error("accounts could not be deleted", metadata: ["namespace": "\(name)", "reason": "\(fault)"])
                                    return end(.accountsLeft("\(fault)"))
                                }
                                logger.notice("database removed", metadata: ["namespace": "\(name)"])
                                catalog.forget(name) { _ in end(nil) }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Notifies the clients of a removed database, and closes their connections.
    private func close(_ database: Database?, _ done: @escaping @Sendable () -> Void) {
        guard let database else { return done() }
        let all = Countdown(lanes.count, done)
        for lane in lanes {
            lane.loop.execute {
                lane.closeSessions(of: database)
                all.arrive()
            }
        }
    }

    /// The databases, as JSON: `[{"name":"watchme","default":true,"accounts":"own"},{"name":"planner","accounts":"own","madeAt":1790…}]`
    var databasesJSON: JSONValue {
        let names = catalog.names
        let others = hub.all.map(\.name).filter { !names.contains($0) }.sorted()
        return .array((names + others).map { name -> JSONValue in
            var members: [JSONValue.Member] = [.init("name", .string(name))]
            if name == settings.namespace { members.append(.init("default", true)) }
            let isOwn = name == settings.namespace || catalog.accounts(of: name).isOwn
            if accounts != nil { members.append(.init("accounts", .string(isOwn ? "own" : "shared"))) }
            if let madeAt = catalog.madeAt(name) { members.append(.init("madeAt", .int(madeAt))) }
            if catalog.isConfigured(name) { members.append(.init("configured", true)) }
            if hub.database(name) == nil { members.append(.init("open", false)) }
            return .object(members)
        })
    }
}

/// Why a database was not created or removed.
enum DatabaseFault: Error, CustomStringConvertible {
    case name, busy, cluster, tooMany, notOpened
    case exists(String), held(String), unknown(String), configured(String), project(String)
    case notStored(String), accountsLeft(String)

    var status: HTTPResponse.Status {
        switch self {
        case .name, .tooMany: .badRequest
        case .unknown: .notFound
        case .exists, .held, .configured, .project: .conflict
        case .cluster: .notImplemented
        case .busy, .notStored, .notOpened, .accountsLeft: .serviceUnavailable
        }
    }

    var description: String {
        switch self {
        case .name: "A database's name is 1–64 letters, digits, - and _."
        case .busy: "Another database is being created or removed. Try again later."
        case .cluster: "In a cluster databases are not created or removed while it runs: name the same ones at the start of each hub."
        case .tooMany: "This hub has \(DatabaseCatalog.most) created databases, the most that it may have."
        case .notOpened: "The database could not be opened, so it was not created. The hub's log has the reason."
        case .exists(let name): "The database \(name) exists already."
        case .held(let name):
            "The data folder holds data, rules, secrets or accounts of a database \(name) that this hub does not serve. Remove it first, "
                + "or serve it with --namespace \(name)."
        case .project(let name):
            "\(name) is the hub's project (--project): a database of this name would get requests for the hub's accounts. Choose another "
                + "name, or let it share the hub's accounts."
        case .unknown(let name): "There is no database \(name)."
        case .configured(let name):
            "The database \(name) is named by the hub's configuration. Take it out there, restart the hub, then remove it."
        case .notStored(let reason): "Nothing was changed, because it could not be stored: \(reason)"
        case .accountsLeft(let reason):
            "The data is removed, but the accounts could not be deleted. Remove the database again, or restart the hub: \(reason)"
        }
    }
}
