import JSONTree
import Synchronization
import WireProtocols

/// Settings that the SDKs' command-line tool reads and writes. Kept in memory only.
final class SmallSettings: Sendable {
    /// The settings, by their paths.
    enum Name: String {
        /// For writes without `writeSizeLimit`.
        case writeSizeLimit = ".settings/defaultWriteSizeLimit"
        /// Without effect: there are no triggers.
        case strictTriggerValidation = ".settings/strictTriggerValidation"
    }

    private let values = Mutex<[String: [Name: JSONValue]]>([:])

    /// Forgets the settings of a removed database.
    func forget(_ namespace: String) { values.withLock { $0[namespace] = nil } }

    func value(_ name: Name, of namespace: String) -> JSONValue {
        values.withLock { $0[namespace]?[name] } ?? (name == .writeSizeLimit ? "unlimited" : false)
    }

    /// - Returns: false for a value that the setting cannot have.
    func put(_ value: JSONValue, _ name: Name, of namespace: String) -> Bool {
        let isPossible = name == .writeSizeLimit ? value.string.flatMap(RESTRequest.WriteSize.init) != nil : value.bool != nil
        if isPossible { values.withLock { $0[namespace, default: [:]][name] = value } }
        return isPossible
    }

    /// The size limit of writes without `writeSizeLimit`.
    func writeSize(of namespace: String) -> RESTRequest.WriteSize {
        value(.writeSizeLimit, of: namespace).string.flatMap(RESTRequest.WriteSize.init) ?? .unlimited
    }
}

extension Server {
    var smallSettings: SmallSettings { catalog.smallSettings }
}
