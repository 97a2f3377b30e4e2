import HubEngine
import JSONTree
import Logging
import Scheduling
public import SecurityRules

/// Rules administration. Callers authorise the administrator first.
extension Server {
    /// Whether the rules could allow the client some write of the place. A refusal is counted, logged and kept here, because the write
    /// never reaches a database's queue. From any thread.
    func mayAllowWrite(_ path: Path, in database: Database, by identity: Identity) -> Bool {
        if database.mayAllowWrite(CollectionOfOne(path), by: identity) { return true }
        database.countRefusedWrite(of: path)
        records.refusedUnread(path, by: identity, in: database.name)
        return false
    }

    /// Checks rules and puts them in force in a namespace, without a restart: all or nothing. The rules of running listens are evaluated
    /// again, and listens that the new rules refuse are cancelled before anything else is pushed to them. A faulty text changes nothing.
    ///
    /// Deployed rules outlive the process. They stay in force until the next deploy, or until the rules file is changed and read
    /// again (at a start, or by `reload(_:of:_:)`): the last change counts.
    /// - Parameters:
    ///   - source: the rules file, at most `RuleSet.maxBytes`.
    ///   - isDryRun: only checks the rules and reports what would change.
    ///   - done: called once, on an arbitrary queue, when the rules are in force and as durable as an acknowledged write.
    public func deployRules(
        _ source: [UInt8], namespace: String, isDryRun: Bool = false, _ done: @escaping @Sendable (RulesAnswer) -> Void
    ) {
        hub.open(namespace) { [rulesInForce] database in
            guard let database else { return done(.failed(.unknownNamespace(namespace))) }
            rulesInForce.deploy(source, to: database, isDryRun: isDryRun, done)
        }
    }

    /// The rules in force in a namespace, as written with comments (`text`) or as `plainJSON`; nil for a namespace
    /// that is not open. From any thread.
    public func rules(of namespace: String) -> RuleSet? {
        hub.database(namespace) == nil ? nil : rulesInForce.rules(of: namespace)
    }

    /// Whether the rules in force in a database were deployed.
    public func hasDeployedRules(_ namespace: String) -> Bool { rulesInForce.isDeployed(namespace) }

    /// Applies the current text of a rules file to the databases that have it. The same text changes nothing; another text also replaces
    /// deployed rules. From any thread.
    /// - Parameter done: called once, on an arbitrary queue, with whether anything changed.
    public func reload(_ rules: RuleSet, of file: String, _ done: @escaping @Sendable (Bool) -> Void = { _ in }) {
        rulesInForce.reload(rules, of: file, in: hub, done)
    }

    /// Logs why a rules file was not applied. The previous rules stay in force.
    public func logFaultyRules(_ faults: [String]) {
        for fault in faults.prefix(100) { logger.error("the rules before stay in force", metadata: ["reason": "\(fault)"]) }
        if faults.count > 100 { logger.error("the rules before stay in force", metadata: ["reason": "\(faults.count - 100) more faults"]) }
    }
}
