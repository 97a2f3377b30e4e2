import Cryptography
import Dispatch
public import Journal
import JSONTree
import Synchronization

/// Database secrets: administrator credentials for servers, scripts and the command line (contract §8.1). Requests with one bypass
/// the rules. A secret is shown once, when it is created; only its hash is stored, in the setting `secrets` of the whole store or, for
/// those of one database, of its namespace.
///
///     {"secrets":[{"id":"Qz7…","name":"backup","madeAt":1790000000000,"hash":"9f86d0…"}]}
///
/// A hash without salt or stretching is enough: a secret is 40 random letters and digits (238 bits), not a chosen password.
public final class Secrets: Sendable {
    /// The stored record of a secret.
    public struct Entry: Sendable, Equatable {
        /// Identifies the secret in lists and for removal; independent of the secret itself.
        public let id: String
        /// Its purpose, given by the administrator who created it. At most 100 bytes.
        public let name: String
        /// ms since the epoch.
        public let madeAt: Int64
        /// SHA-256 of the secret.
        let hash: [UInt8]
    }

    /// Length of a secret, as the SDKs' own legacy secrets have it.
    public static let length = 40
    /// The most secrets that one store may have.
    public static let most = 100
    /// Longest name in bytes.
    public static let nameBytes = 100

    static let setting = "secrets"
    private let store: any SettingStore
    /// The database that they belong to; nil for the hub.
    private let database: String?
    private let entries: Mutex<[Entry]>
    /// The stored form of `entries`; kept only where other hubs of a cluster may change the same secrets.
    private let stored: Mutex<[UInt8]?>
    /// Whether the store had never held a secret, not even a revoked one, when this object was created.
    public let isNew: Bool
    /// Serializes changes with their storage.
    private let changes = DispatchQueue(label: "vigla.secrets")

    /// Reads the stored secrets; blocks.
    /// - Parameter database: nil for the secrets of the hub.
    public init(_ store: any SettingStore, of database: String? = nil) throws(JournalError) {
        (self.store, self.database) = (store, database)
        let stored = try store.settings(of: database)[Self.setting]
        isNew = stored == nil
        entries = Mutex(stored.flatMap(Self.parse) ?? [])
        self.stored = Mutex(stored)
        store.whenChanged { [weak self] change in
            if change.namespace == database, change.name == Self.setting { self?.load(change.value) }
        }
    }

    /// Applies the stored value after this hub, or another one of the cluster, has changed it.
    private func load(_ value: [UInt8]?) {
        entries.withLock { entries in
            entries = value.flatMap(Self.parse) ?? []
            stored.withLock { $0 = value }
        }
    }

    /// All secrets, oldest first. From any thread.
    public var all: [Entry] { entries.withLock { $0 } }

    /// Whether a credential is one of the secrets. Compares in constant time.
    public func admit(_ credential: String) -> Bool {
        guard credential.utf8.count == Self.length else { return false }
        let hash = Self.hash(credential)
        var isKnown = false
        for entry in all where isSameSecret(entry.hash, hash) { isKnown = true }
        return isKnown
    }

    /// Random text for a new secret.
    public static func random() -> String { SecureRandom.text(length) }

    /// Creates a secret.
    /// - Parameters:
    ///   - secret: from `random()`; for callers that must store the secret before it becomes valid.
    ///   - done: called once, on an arbitrary queue, when the entry is as durable as a write: with the secret, which cannot be
    ///     shown again, or with the fault.
    public func add(
        _ name: String, madeAt: Int64, secret: String = Secrets.random(),
        _ done: @escaping @Sendable (Result<(entry: Entry, secret: String), SecretFault>) -> Void
    ) {
        let entry = Entry(id: SecureRandom.text(8), name: name, madeAt: madeAt, hash: Self.hash(secret))
        guard name.utf8.count <= Self.nameBytes else { return done(.failure(.nameTooLong)) }
        if store.isShared {
            return share { $0.count < Self.most ? .success($0 + [entry]) : .failure(.tooMany) } done: { fault in
                if let fault { done(.failure(fault)) } else { done(.success((entry, secret))) }
            }
        }
        changes.async { [self] in
            let changed = entries.withLock { entries -> [Entry]? in
                guard entries.count < Self.most else { return nil }
                entries.append(entry)
                return entries
            }
            guard let changed else { return done(.failure(.tooMany)) }
            persist(changed) { [self] fault in
                guard let fault else { return done(.success((entry, secret))) }
                entries.withLock { $0.removeAll { $0.id == entry.id } }
                done(.failure(fault))
            }
        }
    }

    /// Revokes a secret. From now on requests with it are refused; sockets and streams that were opened with it stay open.
    /// - Parameter done: called once, on an arbitrary queue, when the removal is durable.
    public func remove(_ id: String, _ done: @escaping @Sendable (SecretFault?) -> Void) {
        if store.isShared {
            return share { entries in
                let left = entries.filter { $0.id != id }
                return left.count < entries.count ? .success(left) : .failure(.unknown)
            } done: { done($0) }
        }
        changes.async { [self] in
            let (changed, removed) = entries.withLock { entries -> ([Entry]?, Entry?) in
                guard let at = entries.firstIndex(where: { $0.id == id }) else { return (nil, nil) }
                let removed = entries.remove(at: at)
                return (entries, removed)
            }
            guard let changed else { return done(.unknown) }
            persist(changed) { [self] fault in
                // The stored list still has it, so it would be valid again after a restart: keep it valid now, too.
                if fault != nil, let removed { entries.withLock { $0.append(removed) } }
                done(fault)
            }
        }
    }

    /// Changes the setting that all hubs of the cluster share; `load` applies the result before `done` is called. If another hub's change
    /// came first, the change is applied again to that hub's value.
    private func share(
        tries: Int = 8, _ change: @escaping @Sendable ([Entry]) -> Result<[Entry], SecretFault>,
        done: @escaping @Sendable (SecretFault?) -> Void
    ) {
        changes.async { [self] in
            let (entries, former) = self.entries.withLock { entries in (entries, stored.withLock { $0 }) }
            switch change(entries) {
            case .failure(let fault): done(fault)
            case .success(let changed):
                store.replace(former, by: Self.bytes(changed), setting: Self.setting, of: database) { [self] result in
                    switch result {
                    case .success: done(nil)
                    case .failure(.changed) where tries > 1: share(tries: tries - 1, change, done: done)
                    case .failure(let error): done(.notStored("\(error)"))
                    }
                }
            }
        }
    }

    private func persist(_ entries: [Entry], _ done: @escaping @Sendable (SecretFault?) -> Void) {
        store.put(Self.bytes(entries), setting: Self.setting, of: database) { result in
            switch result {
            case .success: done(nil)
            case .failure(let error): done(.notStored("\(error)"))
            }
        }
    }

    // MARK: Storage

    private static func hash(_ secret: String) -> [UInt8] { HashFunction.sha256.hash(secret.utf8) }

    private static func bytes(_ entries: [Entry]) -> [UInt8] {
        let list = entries.map { entry -> JSONValue in
            let hash = entry.hash.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            return ["id": .string(entry.id), "name": .string(entry.name), "madeAt": .int(entry.madeAt), "hash": .string(hash)]
        }
        return JSONValue.object([.init("secrets", .array(list))]).bytes
    }

    private static func parse(_ bytes: [UInt8]) -> [Entry]? {
        guard let stored = try? JSONValue(bytes) else { return nil }
        return (stored["secrets"]?.elements ?? []).compactMap { secret in
            guard let id = secret["id"]?.string, let name = secret["name"]?.string, let madeAt = secret["madeAt"]?.int,
                let hex = secret["hash"]?.string, hex.utf8.count == 64
            else { return nil }
            let digits = Array(hex.utf8)
            let hash = stride(from: 0, to: 64, by: 2).compactMap {
                UInt8(String(decoding: digits[$0...($0 + 1)], as: UTF8.self), radix: 16)
            }
            return hash.count == 32 ? Entry(id: id, name: name, madeAt: madeAt, hash: hash) : nil
        }
    }
}

/// Why a secret was not created or revoked.
public enum SecretFault: Error, Sendable, CustomStringConvertible {
    case tooMany, nameTooLong, unknown
    case notStored(String)

    public var description: String {
        switch self {
        case .tooMany: "There are \(Secrets.most) secrets; remove one that is no longer used."
        case .nameTooLong: "A secret's name has at most \(Secrets.nameBytes) bytes."
        case .unknown: "There is no secret with this id."
        case .notStored(let reason): "It could not be stored: \(reason)"
        }
    }
}
