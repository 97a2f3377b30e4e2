import Accounts
import DispatchNet
import HubEngine

/// Applies an account's change to the clients that are signed in to it (accounts contract §15):
///
///     change ─► every lane revokes the account's sessions and streams ─► if it was deleted: its places are removed
///
/// Connections of the session that made the change go on for `tokenLeewaySeconds`: its client has fresh tokens, or will in a moment, and
/// signs in with them.
/// Revoking first commits the writes that the sessions left for their disconnect, so the removal takes those too. Where the end of a
/// session waits for a large write, the removal waits as well.
final class AccountEffects: Sendable {
    private let lanes: [Lane]
    private let removal: AccountRemoval

    init(_ lanes: [Lane], _ removal: AccountRemoval) {
        self.lanes = lanes
        self.removal = removal
    }

    /// Applies a change. From any thread; each lane sees changes in the order of the calls.
    func apply(_ change: AccountChange) {
        let done = Countdown(lanes.count) { [removal] in
            if change.kind == .deleted { removal.remove(change.uid) }
        }
        for lane in lanes {
            lane.loop.execute {
                let (revoked, runOut) = lane.signIns.revoke(uid: change.uid, session: change.session, author: change.author)
                for session in revoked { session.revoke() }
                for session in runOut { session.runOut() }
                done.arrive()
            }
        }
    }
}
