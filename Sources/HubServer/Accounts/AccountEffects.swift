import Accounts
import DispatchNet
import HubEngine

/// What a change of an account does to those who are connected (accounts contract §15):
///
///     change ─► every lane: that account's sessions and streams are revoked ─► deleted: its places are removed
///
/// In this order, so that what its sessions had left for their disconnect is written before that and goes with the rest. Where a
/// session's end waits behind a large write of it, the removal waits for that as well.
final class AccountEffects: Sendable {
    private let lanes: [Lane]
    private let removal: AccountRemoval

    init(_ lanes: [Lane], _ removal: AccountRemoval) {
        self.lanes = lanes
        self.removal = removal
    }

    /// From any thread; in the order of the calls for each lane.
    func happened(_ change: AccountChange) {
        let done = Countdown(lanes.count) { [removal] in
            if change.kind == .deleted { removal.remove(change.uid) }
        }
        for lane in lanes {
            lane.loop.execute {
                for session in lane.signIns.takeOver(uid: change.uid, session: change.session) { session.revoke() }
                done.arrive()
            }
        }
    }
}
