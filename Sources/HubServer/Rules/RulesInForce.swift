import Dispatch
import HubEngine
import Journal
import Logging
import Scheduling
import SecurityRules
import Synchronization

/// The rules of each namespace, their sources and their replacement. All changes are serialized here.
///
/// Rules come from a database's rules file and from deploys, and **the last change counts**. A deploy is stored with the hash of the file
/// that it replaced. While the file stays the same, the deployed rules are in force, also after a restart. When the file has changed at a
/// start or SIGHUP, the file is in force and the deployed rules are dropped.
///
/// ```
/// deploy ── check ── store ── replace in the database ── answer          each step runs only if all before it succeeded
/// ```
///
/// In a cluster all hubs share the stored rules, but their files may differ: **deployed rules count**, whichever hub deployed them. A file
/// is deployed only where no rules are stored yet; otherwise the hub reports that the file is not in force.
final class RulesInForce: Sendable {
    private let settings: any SettingStore
    private let isDurable: Bool
    /// Number of replaced texts kept for each namespace.
    private let formerMost: Int
    private let scheduler: Scheduler
    private let logger: Logger
    private let state: Mutex<State>
    /// Queue on which rules are parsed and checked, which takes too long for a net loop or a database's queue.
    private let queue = DispatchQueue(label: "vigla.rules")

    /// The rules of a database without deployed rules.
    fileprivate struct Configured {
        var rules: RuleSet
        /// The file of the rules, and the hash of its text; nil and empty without one.
        let file: String?
        var hash: String

        init(_ database: DatabaseSettings?) {
            rules = database?.rules ?? .denyAll
            file = database?.rulesFile
            hash = file == nil ? "" : StoredRules.hash(of: rules.text)
        }

        /// Replaces the rules if they are those of a file with another text.
        mutating func replace(_ rules: RuleSet, _ hash: String, of file: String) -> Bool {
            guard self.file == file, self.hash != hash else { return false }
            (self.rules, self.hash) = (rules, hash)
            return true
        }
    }

    fileprivate struct State {
        /// By the names of the configuration.
        var configured: [String: Configured]
        /// Of all other databases.
        var others: Configured
        /// Deployed rules of the open namespaces.
        var deployed: [String: RuleSet] = [:]
        /// Removed databases, until they are opened again: their rules are not changed any more.
        var removed: Set<String> = []
        /// Replaced texts of the open namespaces.
        var former: [String: FormerRules] = [:]
        /// A change is in progress; further ones wait.
        var isChanging = false
        var waiting: [@Sendable () -> Void] = []

        func configured(_ namespace: String) -> Configured { configured[namespace] ?? others }

        func rules(of namespace: String) -> RuleSet { deployed[namespace] ?? configured(namespace).rules }
    }

    /// - Parameters:
    ///   - databases: those of the configuration.
    ///   - others: has the rules of all others; nil denies everything there.
    ///   - former: number of replaced texts kept for each namespace.
    init(
        of databases: [DatabaseSettings] = [], others: DatabaseSettings?, settings: any SettingStore, isDurable: Bool, former: Int,
        scheduler: Scheduler, logger: Logger
    ) {
        self.settings = settings
        self.isDurable = isDurable
        self.formerMost = former
        self.scheduler = scheduler
        self.logger = logger
        let configured = databases.map { ($0.name, Configured($0)) }
        state = Mutex(State(configured: Dictionary(configured) { first, _ in first }, others: Configured(others)))
    }

    /// The rules of a namespace that is being opened. Blocks: never call it on a net loop.
    /// - Throws: when the settings cannot be read. A namespace without its rules stays closed.
    func open(_ namespace: String) throws(JournalError) -> RuleSet {
        let kept = try settings.settings(of: namespace)
        let (file, hash) = state.withLock { state in
            state.removed.remove(namespace)
            state.former[namespace] = kept[FormerRules.setting].flatMap(FormerRules.init) ?? FormerRules()
            return (state.configured(namespace).file, state.configured(namespace).hash)
        }
        let rules = kept[StoredRules.setting].flatMap { deployed($0, namespace, file, hash) }
        if settings.isShared, file != nil {
            if let rules { logFile(rules, namespace) } else { seed(namespace) }
        }
        return state.withLock { state in
            // The file may have been reloaded meanwhile: then it is in force.
            guard let rules, state.configured(namespace).hash == hash else { return state.configured(namespace).rules }
            state.deployed[namespace] = rules
            return rules
        }
    }

    /// The deployed rules; nil when the file has changed since the deploy, which drops them.
    private func deployed(
        _ bytes: [UInt8], _ namespace: String, _ file: String?, _ hash: String, isSilent: Bool = false
    ) -> RuleSet? {
        guard let stored = StoredRules(bytes) else {
            logger.error(
                "the deployed rules cannot be read: everything is denied until rules are deployed", metadata: ["namespace": "\(namespace)"])
            return .denyAll
        }
        if let file, stored.after != hash, !settings.isShared {
            logger.notice(
                "the rules file has changed since the last deploy and is in force",
                metadata: ["namespace": "\(namespace)", "file": "\(file)"])
            remember(stored.source, replacedBy: state.withLock { $0.configured(namespace).rules.text }, namespace)
            settings.put(nil, setting: StoredRules.setting, of: namespace) { [logger] result in
                if case .failure(let error) = result {
                    logger.error("deployed rules could not be removed", metadata: ["reason": "\(error)"])
                }
            }
            return nil
        }
        do throws(RulesErrors) {
            let rules = try RuleSet(inForce: stored.source)
            for key in rules.unsupported.prefix(20) {
                logger.warning(
                    "the deployed rules are in force, but one of their keys has no effect",
                    metadata: ["namespace": "\(namespace)", "key": "\(key)", "keys": "\(rules.unsupported.count)"])
            }
            if !isSilent { logger.info("the deployed rules are in force", metadata: ["namespace": "\(namespace)"]) }
            return rules
        } catch {
            for fault in error.errors.prefix(20) {
                logger.error(
                    "deployed rules are faulty: everything is denied", metadata: ["namespace": "\(namespace)", "fault": "\(fault)"])
            }
            return .denyAll
        }
    }

    /// The rules of a namespace that was opened. From any thread.
    func rules(of namespace: String) -> RuleSet { state.withLock { $0.rules(of: namespace) } }

    /// Whether deployed rules are in force. From any thread.
    func isDeployed(_ namespace: String) -> Bool { state.withLock { $0.deployed[namespace] != nil } }

    /// The texts that were in force before in an open namespace, as JSON, the most recently replaced first. From any thread.
    func former(of namespace: String) -> [UInt8] {
        let (former, text) = state.withLock { ($0.former[namespace] ?? FormerRules(), $0.rules(of: namespace).text) }
        return former.bytes(without: text)
    }

    /// Stores a text before other rules replace it, so that no text can be lost between the two.
    /// - Returns: the previous list, to restore if the new rules cannot be stored; nil when nothing has changed.
    @discardableResult
    private func remember(_ replaced: String, replacedBy text: String, _ namespace: String) -> FormerRules? {
        let now = scheduler.wallMs
        let (before, changed) = state.withLock { state -> (FormerRules, FormerRules) in
            var former = state.former[namespace] ?? FormerRules()
            let before = former
            former.add(replaced, until: now, inForce: text, most: formerMost)
            state.former[namespace] = former
            return (before, former)
        }
        guard changed != before else { return nil }
        store(changed, namespace)
        return before
    }

    /// Undoes `remember`: its rules are still in force, so the oldest text was dropped for nothing.
    private func restore(_ former: FormerRules, _ namespace: String) {
        state.withLock { $0.former[namespace] = former }
        store(former, namespace)
    }

    private func store(_ former: FormerRules, _ namespace: String) {
        settings.put(former.bytes(), setting: FormerRules.setting, of: namespace) { [logger] result in
            guard case .failure(let error) = result else { return }
            logger.error("former rules could not be stored", metadata: ["namespace": "\(namespace)", "reason": "\(error)"])
        }
    }

    // MARK: Changes

    /// Removes a database between other changes of rules.
    /// - Parameter remove: called once, on the queue of changes. It calls the closure that it gets when it has finished, with whether the
    ///   database is gone.
    func removing(_ namespace: String, _ remove: @escaping @Sendable (@escaping @Sendable (Bool) -> Void) -> Void) {
        change { [self] finished in
            remove { [self] isRemoved in
                if isRemoved {
                    state.withLock { state in
                        state.removed.insert(namespace)
                        (state.deployed[namespace], state.former[namespace]) = (nil, nil)
                    }
                }
                finished()
            }
        }
    }

    /// Runs changes one after the other. Each calls the closure that it gets when it has finished.
    private func change(_ body: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void) {
        let isFirst = state.withLock { state in
            defer { state.isChanging = true }
            if state.isChanging { state.waiting.append { [self] in run(body) } }
            return !state.isChanging
        }
        if isFirst { run(body) }
    }

    private func run(_ body: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void) {
        queue.async { [self] in
            body { [self] in
                let next = state.withLock { state in
                    if state.waiting.isEmpty {
                        state.isChanging = false
                        return nil as (@Sendable () -> Void)?
                    }
                    return state.waiting.removeFirst()
                }
                next?()
            }
        }
    }

    /// Checks rules and puts them in force. All or nothing: the previous rules stay until the new ones are valid and stored. Then the new
    /// ones decide every further request, and running listens that they refuse are cancelled.
    /// - Parameters:
    ///   - isDryRun: only checks.
    ///   - done: called once, on an arbitrary queue.
    func deploy(_ source: [UInt8], to database: Database, isDryRun: Bool, _ done: @escaping @Sendable (RulesAnswer) -> Void) {
        change { [self] finished in
            let namespace = database.name
            let answer: @Sendable (RulesAnswer) -> Void = { answer in
                finished()
                done(answer)
            }
            if state.withLock({ $0.removed.contains(namespace) }) { return answer(.failed(.unknownNamespace(namespace))) }
            let rules: RuleSet
            do throws(RulesErrors) { rules = try RuleSet(parsing: source) } catch {
                // Dry runs are not logged: an editor sends one at every pause in typing.
                if !isDryRun { logger.notice("rules refused", metadata: ["namespace": "\(namespace)", "faults": "\(error.errors.count)"]) }
                return answer(.refused(error))
            }
            var report = RulesReport(
                warnings: rules.warnings, changes: RulesChanges(from: self.rules(of: namespace), to: rules), keeps: .nothing)
            if isDryRun { return answer(.accepted(report)) }
            let (file, hash) = state.withLock { ($0.configured(namespace).file, $0.configured(namespace).hash) }
            let former = remember(self.rules(of: namespace).text, replacedBy: rules.text, namespace)
            report.keeps = !isDurable ? .untilStop : settings.isShared ? .stored : file.map { .storedUntilFileChanges($0) } ?? .stored
            settings.put(
                StoredRules(source: rules.text, after: hash).bytes, setting: StoredRules.setting, of: namespace) { [self, report] result in
                if case .failure(let error) = result {
                    logger.error("rules could not be stored", metadata: ["namespace": "\(namespace)", "reason": "\(error)"])
                    if let former { restore(former, namespace) }
                    return answer(.failed(.notStored("\(error)")))
                }
                database.replace(rules) { [self] in
                    state.withLock { $0.deployed[namespace] = rules }
                    logger.notice(
                        "rules deployed",
                        metadata: [
                            "namespace": "\(namespace)", "added": "\(report.changes.added.count)",
                            "changed": "\(report.changes.changed.count)",
                            "removed": "\(report.changes.removed.count)",
                        ])
                    var report = report
                    report.pending = database.derived.pending
                    answer(.accepted(report))
                    if !report.pending.isEmpty { respondWhenDerivedComplete(of: database) }
                }
            }
        }
    }

    private func respondWhenDerivedComplete(of database: Database) {
        database.whenDerived(waitMs: nil) { [logger] report in
            logger.notice(
                "counters, copies and expiry of the rules are complete",
                metadata: ["namespace": "\(database.name)", "ms": "\(report.ms)"])
        }
    }

    /// Applies a reloaded file. If its text has changed, it takes effect in every database of that file, and their deployed rules are
    /// dropped.
    /// - Parameter done: called once, on an arbitrary queue, with whether anything changed.
    func reload(_ rules: RuleSet, of file: String, in hub: Hub, _ done: @escaping @Sendable (Bool) -> Void = { _ in }) {
        if settings.isShared {
            for database in hub.all where isOf(file, database.name) && self.rules(of: database.name).text != rules.text {
                logNotInForce(database.name)
            }
            return done(false)
        }
        change { [self] finished in
            // Databases opened from here on get the new rules.
            guard let replaced = state.withLock({ $0.replace(rules, of: file) }) else {
                logger.info("the rules file is the same", metadata: ["file": "\(file)"])
                finished()
                return done(false)
            }
            for (namespace, text) in replaced.texts { remember(text, replacedBy: rules.text, namespace) }
            for namespace in replaced.deployed {
                settings.put(nil, setting: StoredRules.setting, of: namespace) { [logger] result in
                    guard case .failure(let error) = result else { return }
                    logger.error("deployed rules could not be removed", metadata: ["namespace": "\(namespace)", "reason": "\(error)"])
                }
            }
            hub.settled { [self] databases in
                let databases = databases.filter { isOf(file, $0.name) }
                let all = Countdown(databases.count) { [logger] in
                    logger.notice(
                        "the rules file was read again and is in force",
                        metadata: ["file": "\(file)", "deploysReplaced": "\(replaced.deployed.count)"])
                    finished()
                    done(true)
                }
                for database in databases { database.replace(rules) { all.arrive() } }
            }
        }
    }

    /// Whether the configuration gives a database the rules of a file.
    private func isOf(_ file: String, _ namespace: String) -> Bool { state.withLock { $0.configured(namespace).file == file } }
}

extension RulesInForce.State {
    /// Replaces the rules of a file, and the deployed rules of its databases.
    /// - Returns: the open databases whose deployed rules were dropped, and the texts that were in force, by database; nil if the file has
    ///   not changed.
    fileprivate mutating func replace(_ rules: RuleSet, of file: String) -> (deployed: [String], texts: [(String, String)])? {
        let hash = StoredRules.hash(of: rules.text)
        let open = former.keys.filter { configured($0).file == file && configured($0).hash != hash }
        let texts = open.map { ($0, self.rules(of: $0).text) }
        var isChanged = others.replace(rules, hash, of: file)
        for name in configured.keys where configured[name]?.replace(rules, hash, of: file) == true { isChanged = true }
        guard isChanged else { return nil }
        let dropped = open.filter { deployed.removeValue(forKey: $0) != nil }
        return (dropped, texts)
    }
}

// MARK: A cluster

extension RulesInForce {
    /// From now on applies the rules that any hub of the cluster deploys.
    func followOthers(in hub: Hub) {
        settings.whenChanged { [weak self, weak hub] change in
            guard let self, let hub, let namespace = change.namespace else { return }
            if [StoredRules.setting, FormerRules.setting].contains(change.name) { takeOver(namespace, in: hub) }
        }
    }

    /// Applies the rules that are stored at this time, whichever change triggered it. So the last change counts even if deploys race.
    private func takeOver(_ namespace: String, in hub: Hub) {
        change { [self] finished in
            hub.settled { [self] databases in
                guard let database = databases.first(where: { $0.name == namespace }) else { return finished() }
                queue.async { [self] in takeOver(database, finished) }
            }
        }
    }

    private func takeOver(_ database: Database, _ finished: @escaping @Sendable () -> Void) {
        let namespace = database.name
        let kept: [String: [UInt8]]
        do throws(JournalError) { kept = try settings.settings(of: namespace) } catch {
            logger.error("rules could not be read", metadata: ["namespace": "\(namespace)", "reason": "\(error)"])
            return finished()
        }
        let (file, hash) = state.withLock { state in
            state.former[namespace] = kept[FormerRules.setting].flatMap(FormerRules.init) ?? FormerRules()
            return (state.configured(namespace).file, state.configured(namespace).hash)
        }
        let deployed = kept[StoredRules.setting].flatMap { self.deployed($0, namespace, file, hash, isSilent: true) }
        let rules = deployed ?? state.withLock { $0.configured(namespace).rules }
        let isNew = self.rules(of: namespace).text != rules.text
        guard isNew else {
            state.withLock { $0.deployed[namespace] = deployed }
            return finished()
        }
        database.replace(rules) { [self] in
            state.withLock { $0.deployed[namespace] = deployed }
            logger.notice("rules that another hub has deployed are in force", metadata: ["namespace": "\(namespace)"])
            finished()
        }
    }

    /// Deploys the rules of the file where none are stored. If another hub stores its file first, that file counts.
    private func seed(_ namespace: String) {
        let (rules, hash) = state.withLock { ($0.configured(namespace).rules, $0.configured(namespace).hash) }
        let bytes = StoredRules(source: rules.text, after: hash).bytes
        settings.replace(nil, by: bytes, setting: StoredRules.setting, of: namespace) { [self] result in
            switch result {
            case .success: logger.notice("the rules file is deployed to the cluster", metadata: ["namespace": "\(namespace)"])
            case .failure(.changed), .failure(.closed): break
            case .failure(let error):
                logger.warning("the rules file is not deployed to the cluster yet", metadata: [
                    "namespace": "\(namespace)", "reason": "\(error)",
                ])
                scheduler.after(ms: 5_000, on: queue) { [weak self] in self?.seed(namespace) }
            }
        }
    }

    private func logFile(_ rules: RuleSet, _ namespace: String) {
        if state.withLock({ $0.configured(namespace).rules.text }) != rules.text { logNotInForce(namespace) }
    }

    private func logNotInForce(_ namespace: String) {
        logger.warning("the rules file is not in force: the cluster's deployed rules are (vigla rules deploy changes them)", metadata: [
            "namespace": "\(namespace)", "file": "\(state.withLock { $0.configured(namespace).file } ?? "")",
        ])
    }
}
