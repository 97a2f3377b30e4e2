import Cryptography
import Dispatch
import Journal
import JSONTree
import Logging
import Outbound
import Synchronization

/// The hub's key for push services. Browsers bind each subscription to it, so it is created once and kept with the data: in the setting
/// `push-key` of the whole store, which the hubs of a cluster share and backups contain.
///
///     {"key":"MIGHAgEA…","madeAt":1790000000000}
enum PushKey {
    static let setting = "push-key"

    /// The stored key; at the first start a new one. Blocks.
    /// - Parameter wallMs: ms since the epoch.
    /// - Returns: nil if a new key cannot be stored, which is logged: with a key that the next start does not have, subscriptions would be
    ///   lost.
    /// - Throws: `ServerError.cannotOpen`, if the stored key cannot be read. It is never replaced.
    static func load(_ store: any SettingStore, wallMs: Int64, _ logger: Logger) throws(ServerError) -> VAPIDKey? {
        if let stored = try stored(store) { return stored }
        let (key, text): (VAPIDKey, String)
        do throws(CryptographyError) {
            key = try VAPIDKey.make()
            text = try key.text()
        } catch { throw .cannotOpen("the key for push services could not be created: \(error)") }
        let value: JSONValue = ["key": .string(text), "madeAt": .int(wallMs)]
        switch putNow(value.bytes, store) {
        case nil:
            logger.notice("made the key for push services", metadata: ["public": "\(key.publicText)"])
            return key
        case .changed?:
            // Another hub of the cluster was faster.
            return try stored(store)
        case let error?:
            logger.error("Web Push is off until the next start: its new key could not be stored", metadata: ["reason": "\(error)"])
            return nil
        }
    }

    private static func stored(_ store: any SettingStore) throws(ServerError) -> VAPIDKey? {
        let value: [UInt8]?
        do throws(JournalError) { value = try store.settings(of: nil)[setting] } catch { throw .cannotOpen("\(error)") }
        guard let value else { return nil }
        guard let text = (try? JSONValue(value))?["key"]?.string, let key = try? VAPIDKey(text: text) else {
            throw .cannotOpen(
                "The key for push services (the setting \(setting)) cannot be read. With another key every device would have to "
                    + "subscribe again, so the hub does not replace it. Restore the folder from a backup, or start without \"subject\" in "
                    + "the section \"outbound\".")
        }
        return key
    }

    /// Stores the first value, and waits for that. Only before the hub serves.
    private static func putNow(_ value: [UInt8], _ store: any SettingStore) -> JournalError? {
        let done = DispatchSemaphore(value: 0)
        let failure = Mutex<JournalError?>(nil)
        store.replace(nil, by: value, setting: setting, of: nil) { result in
            if case .failure(let error) = result { failure.withLock { $0 = error } }
            done.signal()
        }
        done.wait()
        return failure.withLock { $0 }
    }
}
