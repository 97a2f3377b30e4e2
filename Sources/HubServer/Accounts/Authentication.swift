import Accounts
import Dispatch
import Journal
import Logging
import Scheduling
import Synchronization
import WireProtocols

/// Who clients are: administrators by their secrets, users by accounts or signed tokens.
///
/// A database may have accounts of its own (`Project`), and secrets of its own, whose holders administer that database only.
final class Authentication: Sendable {
    /// The secrets of the hub, the credentials of its administrators.
    let secrets: Secrets
    /// The project of the default database, and of those that share its accounts.
    let hubProject: Project
    private let settings: ServerSettings
    private let storage: any JournalStorage
    private let origin: String
    private let scheduler: Scheduler
    private let logger: Logger
    private let databases = Mutex(Databases())

    /// What open databases have of their own.
    private struct Databases {
        var secrets: [String: Secrets] = [:]
        var projects: [String: Project] = [:]
        /// Databases whose own accounts could not be opened: requests for them do not get the hub's.
        var unopened: Set<String> = []
    }

    /// - Parameter origin: the hub's origin, for links in mails.
    /// - Throws: `ServerError.cannotOpen`.
    init(
        _ settings: ServerSettings, _ storage: any JournalStorage, origin: String, _ scheduler: Scheduler, _ logger: Logger
    ) throws(ServerError) {
        (self.settings, self.storage, self.origin, self.scheduler, self.logger) = (settings, storage, origin, scheduler, logger)
        let secrets: Secrets
        do throws(JournalError) { secrets = try Secrets(storage.settingStore) } catch { throw .cannotOpen("\(error)") }
        self.secrets = secrets
        let defaultSecrets: Secrets
        do throws(JournalError) { defaultSecrets = try Secrets(storage.settingStore, of: settings.namespace) } catch {
            throw .cannotOpen("\(error)")
        }
        do {
            hubProject = try Self.project(
                settings.accounts, verifier: settings.tokens, of: nil, settings, storage, origin: origin, scheduler, logger
            ) { [isDev = settings.isDev] credential in
                // Not by the secrets of the default database: other databases may share these accounts.
                secrets.admit(credential) || isDev && credential == "owner"
            }
        } catch { throw .cannotOpen("\(error)") }
        databases.withLock { $0.secrets[settings.namespace] = defaultSecrets }
    }

    private static func project(
        _ given: AccountSettings?, verifier: (any TokenVerifier)?, of database: String?, _ settings: ServerSettings,
        _ storage: any JournalStorage, origin: String, _ scheduler: Scheduler, _ logger: Logger,
        isAdministrator: @escaping @Sendable (String) -> Bool
    ) throws -> Project {
        let accounts = try given.map { given in
            var given = given
            given.publicURL = given.publicURL ?? origin
            given.database = database
            return try AccountService(
                given, folder: settings.dataFolder, isAdministrator: isAdministrator, logger: logger, scheduler: scheduler,
                log: database == nil ? storage.accountLog : nil)
        }
        let verifier = verifier ?? accounts.map { AccountTokens(accounts: $0, leewaySeconds: settings.limits.tokenLeewaySeconds) }
        // The SDKs' own tests send many requests at once from one address.
        let requests = AccountRequests(
            most: settings.limits.accountRequests, ofNetwork: settings.isDev ? .max : settings.limits.accountRequestsOfNetwork)
        return Project(
            of: database, accounts, requests, verifier.map { TokenChecks($0, settings.limits, scheduler) },
            isAdministrator: isAdministrator)
    }

    // MARK: Databases

    /// Opens the secrets of a database, and its accounts if it has its own. Blocks.
    func open(_ database: String, _ accounts: DatabaseAccounts) throws {
        guard self.secrets(of: database) == nil else { return }
        let secrets = try Secrets(storage.settingStore, of: database)
        if let given = accounts.settings(of: database, hub: settings.accounts) {
            databases.withLock { _ = $0.unopened.insert(database) }
            let project = try Self.project(
                given, verifier: nil, of: database, settings, storage, origin: origin, scheduler, logger
            ) { [hub = self.secrets, isDev = settings.isDev] credential in
                hub.admit(credential) || secrets.admit(credential) || isDev && credential == "owner"
            }
            databases.withLock { databases in
                databases.projects[database] = project
                databases.unopened.remove(database)
            }
        }
        databases.withLock { $0.secrets[database] = secrets }
    }

    /// Closes what a removed database had of its own, and deletes its accounts.
    /// - Parameter done: called once, on an arbitrary queue, when that is on disk or with the reason why not.
    func remove(_ database: String, _ done: @escaping @Sendable (AccountStoreFault?) -> Void) {
        let project = databases.withLock { databases in
            databases.secrets[database] = nil
            databases.unopened.remove(database)
            return databases.projects.removeValue(forKey: database)
        }
        let delete: @Sendable () -> Void = { [folder = settings.dataFolder] in
            do throws(AccountStoreFault) {
                if let folder { try AccountStore.remove(from: folder, of: database) }
                done(nil)
            } catch { done(error) }
        }
        if let accounts = project?.accounts { accounts.end(logger, delete) } else { delete() }
    }

    /// The secrets of a database that is open. From any thread.
    func secrets(of database: String) -> Secrets? { databases.withLock { $0.secrets[database] } }

    /// The project whose accounts a database has; nil for a database that is not open. From any thread.
    func project(of database: String) -> Project? {
        databases.withLock { $0.projects[database] ?? ($0.secrets[database] == nil ? nil : hubProject) }
    }

    /// All projects, the hub's first. From any thread.
    var projects: [Project] {
        [hubProject] + databases.withLock { $0.projects.sorted { $0.key < $1.key }.map(\.value) }
    }

    /// The project that an account request names: by its path (`projects/{p}`), else by `ns`, its API key or the first label of its host,
    /// in this order. A name that is no database with accounts of its own means the hub's. Nil if its accounts could not be opened.
    func project(for target: HTTPTarget, host: String?) -> Project? {
        databases.withLock { databases -> Project? in
            func isOwn(_ name: String) -> Bool { databases.projects[name] != nil || databases.unopened.contains(name) }
            let named: String? =
                if let project = AccountService.project(in: target) { project }
                else if let ns = target.value("ns"), !ns.isEmpty { ns }
                else if let key = target.value("key"), isOwn(key) { key }
                else { host.flatMap(Namespace.label(of:)) }
            guard let named, isOwn(named) else { return hubProject }
            return databases.projects[named]
        }
    }

    /// Whether a credential is that of an administrator of the hub, or of this database. From any thread.
    func admits(_ credential: String, to database: String?) -> Bool {
        secrets.admit(credential) || database.flatMap(secrets(of:))?.admit(credential) == true
    }

    /// Whether a credential is that of an administrator of the whole hub. From any thread.
    func admitsToHub(_ credential: String) -> Bool { secrets.admit(credential) || settings.isDev && credential == "owner" }
}

extension AccountService {
    /// Closes the service behind the requests that it has accepted.
    nonisolated func end(_ logger: Logger, _ done: @escaping @Sendable () -> Void) {
        whenChanged(nil)
        perform { accounts in
            do { try accounts.close() } catch { logger.error("the accounts could not be closed", metadata: ["reason": "\(error)"]) }
            done()
        }
    }
}

extension Server {
    /// The secrets of the hub, the credentials of its administrators.
    public var secrets: Secrets { authentication.secrets }
    /// The hub's accounts; nil when accounts are not configured.
    var accounts: AccountService? { authentication.hubProject.accounts }
}
