import SecurityRules

/// A namespace's deployed rules, as stored in a data folder. For tools that read the folder without a hub.
public struct DeployedRules: Sendable {
    public let namespace: String
    /// The text as it was deployed.
    public let source: String
    /// Hash of the `--rules` file that they replaced; empty when no file was given.
    private let after: String

    /// - Parameter settings: those of the namespace, by name.
    /// - Returns: nil when none are deployed.
    /// - Throws: `Unreadable`: the hub then denies everything.
    public init?(_ settings: [String: [UInt8]], of namespace: String) throws(Unreadable) {
        guard let bytes = settings[StoredRules.setting] else { return nil }
        guard let stored = StoredRules(bytes) else { throw Unreadable() }
        (self.namespace, source, after) = (namespace, stored.source, stored.after)
    }

    public struct Unreadable: Error {}

    /// Whether they are still in force at a start with this text of the `--rules` file; nil without a file.
    public func hold(over file: String?) -> Bool { file.map { StoredRules.hash(of: $0) == after } ?? true }
}
