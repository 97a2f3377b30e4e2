import HubEngine
import JSONTree
import Synchronization

/// The versions of the tree that pending responses show while writes continue. A version of a place is charged once, however many transfers
/// show it. Memory that it shares with a later version is charged to the later one. From any thread.
///
/// ```
/// /a: version 1 ─── version 2 ─── version 3          counted: 1 without what 2 has, 2 without what 3 has, all of 3
///      ▲    ▲                      ▲
///      transfers                   transfer
/// ```
final class PinnedVersions: Sendable {
    /// The owner of a version; versions of the same place may share memory.
    enum Place: Hashable, Sendable {
        case place(String, Path)
        /// The values of one update, which come from several places.
        case update(Int)
    }

    private struct Version {
        let number: Int
        let content: Node
        /// Its memory in bytes, shared parts included.
        let whole: Int
        /// Bytes charged for it now, without parts that a later version is charged for.
        var counted: Int
        var transfers = 1
        let charge: ShareCharge
    }

    private struct PlaceVersions {
        /// Oldest first. Any order gives an upper bound of the memory.
        var versions: [Version] = []
        let lease: MemoryLease
        var counted: Int { versions.reduce(0) { $0 + $1.counted } }
    }

    private struct State {
        var byPlace: [Place: PlaceVersions] = [:]
        var number = 0
    }

    private let share: MemoryShare
    private let state = Mutex(State())
    /// Most entries and pages that one comparison of two versions visits.
    private static let compared = 10_000

    init(_ budget: MemoryBudget) { share = MemoryShare(of: budget) }

    /// Number of versions held.
    var count: Int { state.withLock { $0.byPlace.values.reduce(0) { $0 + $1.versions.count } } }

    /// A new place for the values of one update.
    func update() -> Place {
        state.withLock { state in
            state.number += 1
            return .update(state.number)
        }
    }

    /// Charges a version for a transfer until the result is released. O(nodes) for the first transfer that shows it, so not on a net loop.
    /// - Parameter address: the memory share that the first transfer of a version is charged to.
    func hold(_ content: Node, of place: Place, for address: MemoryShare) -> Result<PinnedTransfer, MemoryShare.Refusal> {
        if let known = join(content, place) { return .success(known) }
        let whole = content.memoryBytes
        // A single version always fits when nothing else is held: a larger one is charged as the whole limit.
        let counted = min(whole, share.budget.pinnedLimit / MemoryLease.stepBytes * MemoryLease.stepBytes)
        // At most half of the address' share, or it could never read such large content.
        guard let charge = address.chargeAlone(min(counted, address.limit / 2)) else { return .failure(.share) }
        let last = state.withLock { $0.byPlace[place]?.versions.last }
        let own = last.map { $0.content.memoryBytes(besides: content, atMost: Self.compared) ?? $0.whole }
        return state.withLock { state in
            if let known = join(content, place, &state) { return .success(known) }
            var held = state.byPlace.removeValue(forKey: place) ?? PlaceVersions(lease: MemoryLease(share, for: .pinned))
            let before = held
            if let own, let index = held.versions.indices.last, held.versions[index].number == last?.number {
                held.versions[index].counted = min(own, held.versions[index].counted)
            }
            state.number += 1
            held.versions.append(Version(number: state.number, content: content, whole: counted, counted: counted, charge: charge))
            guard held.lease.become(held.counted) else {
                if !before.versions.isEmpty { state.byPlace[place] = before }
                return .failure(held.lease.refusal ?? .process)
            }
            state.byPlace[place] = held
            return .success(PinnedTransfer(self, place, state.number))
        }
    }

    private func join(_ content: Node, _ place: Place) -> PinnedTransfer? { state.withLock { join(content, place, &$0) } }

    /// Adds a transfer to a version that is held already; nil if it is not.
    private func join(_ content: Node, _ place: Place, _ state: inout State) -> PinnedTransfer? {
        guard let index = state.byPlace[place]?.versions.lastIndex(where: { $0.content.isSameObject(as: content) }),
            let number = state.byPlace[place]?.versions[index].number
        else { return nil }
        state.byPlace[place]?.versions[index].transfers += 1
        return PinnedTransfer(self, place, number)
    }

    /// Ends a transfer. The last one releases the version in the background; it stays charged until it is freed.
    fileprivate func end(_ place: Place, _ number: Int) {
        let gone = state.withLock { state -> Retired? in
            guard let index = state.byPlace[place]?.versions.firstIndex(where: { $0.number == number }) else { return nil }
            state.byPlace[place]?.versions[index].transfers -= 1
            guard state.byPlace[place]?.versions[index].transfers == 0,
                let gone = state.byPlace[place]?.versions.remove(at: index)
            else { return nil }
            // Memory that the previous version shares with it is charged to that one now.
            if index > 0, let earlier = state.byPlace[place]?.versions[index - 1] {
                state.byPlace[place]?.versions[index - 1].counted = min(earlier.whole, earlier.counted + gone.counted)
            }
            return Retired(gone)
        }
        gone?.retire { [self] in settle(place) }
    }

    private func settle(_ place: Place) {
        state.withLock { state in
            guard let held = state.byPlace[place] else { return }
            if held.versions.isEmpty { state.byPlace[place] = nil } else { _ = held.lease.become(held.counted) }
        }
    }
}

/// One transfer's reference to a pinned version; ends when it is released.
final class PinnedTransfer: Sendable {
    private let versions: PinnedVersions
    private let place: PinnedVersions.Place
    private let number: Int

    fileprivate init(_ versions: PinnedVersions, _ place: PinnedVersions.Place, _ number: Int) {
        self.versions = versions
        self.place = place
        self.number = number
    }

    deinit { versions.end(place, number) }
}
