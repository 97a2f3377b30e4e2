import GRDB
import Limits
import Logging

/// Accounts that are gone while their data may not be: a trigger of the schema writes each down in the transaction that deletes it.
extension AccountTransaction {
    /// Oldest first.
    func removals() throws -> [String] {
        try Row.fetchAll(db, cached: "SELECT uid FROM removal ORDER BY created_at, uid", []).map { $0[0] }
    }

    func removalDone(_ uid: String) throws { try db.execute(cached: "DELETE FROM removal WHERE uid = ?", [uid]) }
}

extension AccountService {
    /// Deleted accounts whose data is still to be removed.
    public func owedRemovals() -> [String] {
        do { return try store.read { try $0.removals() } } catch AccountStoreFault.closed { return [] } catch {
            logger.error("deleted accounts cannot be read", metadata: ["reason": "\(error)"])
            return []
        }
    }

    /// The data of a deleted account is gone for good. If that cannot be written down, it is removed once more by the next start.
    public func removalDone(_ uid: String) {
        do { try store.transaction { try $0.removalDone(uid) } } catch AccountStoreFault.closed {
            // The next start.
        } catch {
            faults.tell("the removal of a deleted account's data cannot be noted", ["reason": "\(error)"])
        }
    }
}
