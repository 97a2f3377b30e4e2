import Logging

extension AccountService {
    /// Deleted accounts whose data in the database was not removed yet, the oldest first. Noted in the transaction that deletes the
    /// account, so that no crash forgets one.
    public func owedRemovals() -> [String] {
        do { return try store.read { try $0.removals() } } catch {
            logger.error("removals of deleted accounts' data could not be read", metadata: ["error": "\(error)"])
            return []
        }
    }

    /// The data of a deleted account is gone.
    public func removalDone(_ uid: String) {
        do { try store.transaction { try $0.endRemoval(uid) } } catch {
            logger.error("a removal could not be noted", metadata: ["error": "\(error)"])
        }
    }
}
