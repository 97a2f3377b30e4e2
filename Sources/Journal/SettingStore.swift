import Synchronization

/// Small named values that outlive the process: the rules of a namespace, hashed secrets, settings of the whole store.
///
///     nil          "secrets"  …        of the whole store
///     "default"    "rules"    {…}      of one namespace, which need not hold any data
public protocol SettingStore: Sendable {
    /// All settings of a namespace, or of the whole store, by name. Blocks: read them once, at start, and never from a completion.
    /// - Throws: `.corrupt` naming the setting; `.disk`, `.closed`.
    func settings(of namespace: String?) throws(JournalError) -> [String: [UInt8]]

    /// Stores a setting, or with nil removes it.
    /// - Parameter completion: called once, in the order of calls; success means that it is as durable as a write that has
    ///   been acknowledged. On the journal's queue, or at once where nothing is kept on disk.
    func put(
        _ value: [UInt8]?, setting name: String, of namespace: String?,
        completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    )

    /// Whether other hubs change the same settings.
    var isShared: Bool { get }

    /// The same as `put`, if the setting still has the value `former`; else it fails with `.changed`. A store that is not shared does not
    /// ask: nobody else changes it.
    func replace(
        _ former: [UInt8]?, by value: [UInt8]?, setting name: String, of namespace: String?,
        completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    )

    /// Calls back with each change of a shared setting, also an own one, ahead of its completion and in the order of the log, on a queue
    /// of the store.
    func whenChanged(_ hear: @escaping @Sendable (SettingChange) -> Void)
}

extension SettingStore {
    public var isShared: Bool { false }

    public func replace(
        _ former: [UInt8]?, by value: [UInt8]?, setting name: String, of namespace: String?,
        completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    ) { put(value, setting: name, of: namespace, completion: completion) }

    public func whenChanged(_ hear: @escaping @Sendable (SettingChange) -> Void) {}
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

/// Keeps settings as long as the process lives: for `--memory` and for tests.
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
}
