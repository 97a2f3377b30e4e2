import Synchronization

/// Small named values that outlive the process: the rules of a namespace, hashed secrets, settings of the whole store.
///
///     nil          "secrets"  …        of the whole store
///     "default"    "rules"    {…}      of one namespace, which need not hold any data
public protocol SettingStore: Sendable {
    /// All settings of a namespace, or of the whole store, by name. Blocks: read them once, at start, and never from a completion.
    /// - Throws: `.corrupt` naming the setting; `.disk`, `.closed`.
    func settings(of namespace: String?) throws(JournalError) -> [String: [UInt8]]

    /// Stores a setting; nil removes it.
    /// - Parameter completion: called once, in the order of calls. Success means that it is as durable as an acknowledged write. On the
    ///   journal's queue, or immediately if nothing is stored on disk.
    func put(
        _ value: [UInt8]?, setting name: String, of namespace: String?,
        completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    )

    /// Whether other hubs change the same settings.
    var isShared: Bool { get }

    /// Like `put`, if the setting still has the value `former`; otherwise it fails with `.changed`. A store that is not shared skips the
    /// check, because no other hub changes it.
    func replace(
        _ former: [UInt8]?, by value: [UInt8]?, setting name: String, of namespace: String?,
        completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    )

    /// Calls back with each change of a shared setting, including this hub's own. Called before the change's completion, in log order, on a
    /// queue of the store.
    func whenChanged(_ listener: @escaping @Sendable (SettingChange) -> Void)
}

extension SettingStore {
    public var isShared: Bool { false }

    public func replace(
        _ former: [UInt8]?, by value: [UInt8]?, setting name: String, of namespace: String?,
        completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    ) { put(value, setting: name, of: namespace, completion: completion) }

    public func whenChanged(_ listener: @escaping @Sendable (SettingChange) -> Void) {}
}

/// A new value of a setting, or its removal.
public struct SettingChange: Sendable, Equatable {
    public let namespace: String?
    public let name: String
    public let value: [UInt8]?

    public init(_ value: [UInt8]?, setting name: String, of namespace: String?) {
        (self.namespace, self.name, self.value) = (namespace, name, value)
    }
}

/// A setting of a namespace that is stored together with a batch (`JournalBatch.setting`).
public struct JournalSetting: Sendable {
    public let name: String
    public let value: [UInt8]

    public init(_ name: String, _ value: [UInt8]) { (self.name, self.value) = (name, value) }
}

/// Keeps settings in memory: for `--memory` and for tests.
public final class MemorySettings: SettingStore {
    private let values = Mutex<[String: [String: [UInt8]]]>([:])

    public init() {}

    public func settings(of namespace: String?) -> [String: [UInt8]] { values.withLock { $0[namespace ?? ""] ?? [:] } }

    public func put(
        _ value: [UInt8]?, setting name: String, of namespace: String?,
        completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    ) {
        values.withLock { $0[namespace ?? "", default: [:]][name] = value }
        completion(.success(()))
    }

    /// Removes all settings of a namespace.
    func removeAll(of namespace: String) { values.withLock { $0[namespace] = nil } }
}
