import HubEngine
import JSONTree
import Logging
public import SecurityRules

/// What administrators do with rules. Who may is decided before this is called.
extension Server {
    /// Whether some content could make the rules allow the client a write of the place. What they refuse is told to the log, as it
    /// comes to no database. From any thread.
    func mayAllowWrite(_ path: Path, in database: Database, by identity: Identity) -> Bool {
        if database.mayAllowWrite(CollectionOfOne(path), by: identity) { return true }
        refusalLog?.refusedUnread(path, database.name)
        return false
    }

    /// Checks rules and puts them in force in a namespace, without a restart: all or nothing. Running listens are asked again,
    /// and those that the new rules refuse are cancelled before anything else is pushed to them. A faulty text changes nothing.
    ///
    /// Deployed rules outlive the process. They hold until the next deploy, or until the file of `--rules` is changed and read
    /// again (at a start, or by `reload(_:)`): the last change counts.
    /// - Parameters:
    ///   - source: the rules file, at most `RuleSet.maxBytes`.
    ///   - isDryRun: only checks, and tells what would change.
    ///   - done: called once, on some queue; when the rules decide, and are as durable as an acknowledged write.
    public func deployRules(
        _ source: [UInt8], namespace: String, isDryRun: Bool = false, _ done: @escaping @Sendable (RulesAnswer) -> Void
    ) {
        hub.open(namespace) { [rulesInForce] database in
            guard let database else { return done(.failed(.unknownNamespace(namespace))) }
            rulesInForce.deploy(source, to: database, isDryRun: isDryRun, done)
        }
    }

    /// The rules in force in a namespace: as they were written, with comments (`text`), or as `plainJSON`; nil for a namespace
    /// that is not open. From any thread.
    public func rules(of namespace: String) -> RuleSet? {
        hub.database(namespace) == nil ? nil : rulesInForce.rules(of: namespace)
    }

    /// Whether the rules in force in the default namespace were deployed, and are not those of the settings.
    public var hasDeployedRules: Bool { rulesInForce.isDeployed(settings.namespace) }

    /// Takes the file of `--rules` as it is now. A file with the same text changes nothing; another takes the place of what was
    /// deployed, too. From any thread.
    /// - Parameter done: whether anything changed. Called once, on some queue, when it has.
    public func reload(_ rules: RuleSet, _ done: @escaping @Sendable (Bool) -> Void = { _ in }) {
        rulesInForce.reload(rules, in: hub, done)
    }

    /// Says that the file of `--rules` could not be taken, and why. The rules before stay in force.
    public func noteFaultyRules(_ faults: [String]) {
        for fault in faults.prefix(100) { logger.error("the rules before stay in force", metadata: ["reason": "\(fault)"]) }
        if faults.count > 100 { logger.error("the rules before stay in force", metadata: ["reason": "\(faults.count - 100) more faults"]) }
    }
}
