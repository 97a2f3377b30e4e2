import SecurityRules

/// The rules that were deployed to a namespace, as they are kept in a data folder: for tools beside a hub.
public struct DeployedRules: Sendable {
    public let namespace: String
    /// The text as it was deployed.
    public let source: String
    /// Hash of the `--rules` file that they replaced; empty when there was none.
    private let after: String

    /// - Parameter settings: those of the namespace, by name.
    /// - Returns: nil when none are deployed.
    /// - Throws: `Unreadable`: the hub denies everything then.
    public init?(_ settings: [String: [UInt8]], of namespace: String) throws(Unreadable) {
        guard let bytes = settings[StoredRules.setting] else { return nil }
        guard let stored = StoredRules(bytes) else { throw Unreadable() }
        (self.namespace, source, after) = (namespace, stored.source, stored.after)
    }

    public struct Unreadable: Error {}

    /// Whether they hold at a start with this text of the `--rules` file; nil without a file.
    public func hold(over file: String?) -> Bool { file.map { StoredRules.hash(of: $0) == after } ?? true }
}
