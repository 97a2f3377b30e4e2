import Accounts
import DispatchNet
import HubEngine

/// Applies an account's change to the clients that are signed in to it (accounts contract §15):
///
///     change ─► every lane revokes the account's sessions and streams ─► if it was deleted: its places are removed
///
/// Connections of the account session that made the change stay signed in for `tokenLeewaySeconds`: their client signs in again with fresh
/// tokens. Revoking first commits the sessions' onDisconnect writes, so the removal covers those too. If the end of a session waits for a
/// large write, the removal waits as well.
final class AccountEffects: Sendable {
    private let lanes: [LoopSessions]
    /// See `Project.database`.
    private let database: String?
    private let removal: AccountRemoval

    init(_ lanes: [LoopSessions], _ database: String?, _ removal: AccountRemoval) {
        self.lanes = lanes
        self.database = database
        self.removal = removal
    }

    /// Applies a change. From any thread; each lane sees changes in the order of the calls.
    func apply(_ change: AccountChange) {
        let done = Countdown(lanes.count) { [removal] in
            if change.kind == .deleted { removal.remove(change.uid) }
        }
        for lane in lanes {
            lane.loop.execute { [database] in
                let (revoked, expireAfterLeeway) = lane.signIns.revoke(
                    uid: change.uid, of: database, session: change.session, author: change.author)
                for session in revoked { session.revoke() }
                for session in expireAfterLeeway { session.expireAfterLeeway() }
                done.arrive()
            }
        }
    }
}
