package import Commits
package import JSONTree
import LiveQueries
import Scheduling
import SecurityRules

/// The charges of the observers of a namespace, by owner.
///
/// An observer is charged to its client. Shared state is charged once, to the client whose observer came first. When that client's last
/// observer of it ends, the charge moves to a client that still observes it, even if it exceeds that client's share. That client then gets
/// no further observers.
///
/// Confined to the database queue. All in O(owners of a client), except moving a charge: O(clients that observed the same).
package struct ListenCounts {
    package private(set) var total = 0
    private var owners: [Owner: ListenCharge] = [:]
    private var shared: [SharedState: Shared] = [:]
    /// Number of orders at a path that the clients of an owner pay for.
    private var orders: [OwnedPlace: Int] = [:]

    package init() {}

    private struct OwnedPlace: Hashable {
        let owner: Owner
        let path: Path
    }

    private final class Shared {
        var charge: ListenCharge
        var payer: Client
        /// Every client that observes it, with its number of observers.
        var observers: [ObjectIdentifier: (client: Client, count: Int)] = [:]

        init(_ charge: ListenCharge, payer: Client) { (self.charge, self.payer) = (charge, payer) }
    }

    /// The owner of a client that would exceed its share, with its limit; nil for none. A client without an owner has a share of its own.
    /// - Parameters:
    ///   - more: increase of the member that `charge` reads.
    ///   - share: of the table.
    package func excess(_ client: Client, _ more: Int, of charge: (ListenCharge) -> Int, _ share: Share) -> (owner: Owner?, limit: Int)? {
        let owners = client.chargedOwners
        if owners.isEmpty { return charge(client.charge) + more > share.each ? (nil, share.each) : nil }
        for owner in owners {
            let limit = share.limit(of: owner)
            if (self.owners[owner].map(charge) ?? 0) + more > limit { return (owner, limit) }
        }
        return nil
    }

    /// Whether a client, its user and its address are charged nothing of the member that `charge` reads. `nameless` does not count.
    package func isUncharged(_ client: Client, _ charge: (ListenCharge) -> Int) -> Bool {
        if client.chargedOwners.isEmpty { return charge(client.charge) == 0 }
        return client.chargedOwners.allSatisfy { $0 == .nameless || (owners[$0].map(charge) ?? 0) == 0 }
    }

    /// Like `excess`, for one more order at a path that no client observes yet.
    package func hasRoom(forOrderAt path: Path, _ client: Client, _ share: Share) -> Bool {
        let owners = client.chargedOwners
        if owners.isEmpty { return client.paid.count { $0.orderedPlace == path } < share.each }
        return owners.allSatisfy { orders[OwnedPlace(owner: $0, path: path), default: 0] < share.limit(of: $0) }
    }

    package mutating func add(_ charge: ListenCharge, to client: Client) {
        total += charge.listens
        client.charge += charge
        for owner in client.chargedOwners { owners[owner, default: ListenCharge()] += charge }
    }

    package mutating func remove(_ charge: ListenCharge, from client: Client) {
        total -= charge.listens
        client.charge -= charge
        for owner in client.chargedOwners { remove(charge, from: owner) }
    }

    // MARK: Shared state

    /// Whether a client observes it already, so that another observer costs nothing more.
    package func isShared(_ state: SharedState) -> Bool { shared[state] != nil }

    /// Adds an observer.
    /// - Parameter charge: of the state, used for its first observer.
    package mutating func share(_ state: SharedState, with client: Client, charge: @autoclosure () -> ListenCharge) {
        let known: Shared
        if let there = shared[state] {
            known = there
        } else {
            known = Shared(charge(), payer: client)
            shared[state] = known
            pay(state, known)
        }
        known.observers[ObjectIdentifier(client), default: (client, 0)].count += 1
    }

    /// Removes an observer, if the client has one.
    package mutating func unshare(_ state: SharedState, with client: Client) {
        let id = ObjectIdentifier(client)
        guard let known = shared[state], let count = known.observers[id]?.count else { return }
        if count > 1 {
            known.observers[id]?.count = count - 1
            return
        }
        known.observers[id] = nil
        guard known.payer === client else { return }
        stopPaying(state, known)
        if let next = known.observers.first?.value.client {
            known.payer = next
            pay(state, known)
        } else {
            shared[state] = nil
        }
    }

    /// Updates the charge of shared state.
    package mutating func recharge(_ state: SharedState, _ charge: ListenCharge) {
        guard let known = shared[state], known.charge != charge else { return }
        stopPaying(state, known)
        known.charge = charge
        pay(state, known)
    }

    private mutating func pay(_ state: SharedState, _ known: Shared) {
        known.payer.paid.insert(state)
        add(known.charge, to: known.payer)
        for owner in known.payer.chargedOwners { count(1, state, owner) }
    }

    private mutating func stopPaying(_ state: SharedState, _ known: Shared) {
        known.payer.paid.remove(state)
        remove(known.charge, from: known.payer)
        for owner in known.payer.chargedOwners { count(-1, state, owner) }
    }

    // MARK: Owners

    /// Moves all charges of a client to its current owners.
    package mutating func move(_ client: Client) {
        let owners = Owner.all(of: client)
        guard owners != client.chargedOwners else { return }
        for owner in client.chargedOwners {
            remove(client.charge, from: owner)
            for state in client.paid { count(-1, state, owner) }
        }
        client.chargedOwners = owners
        for owner in owners {
            if !client.charge.isZero { self.owners[owner, default: ListenCharge()] += client.charge }
            for state in client.paid { count(1, state, owner) }
        }
    }

    private mutating func remove(_ charge: ListenCharge, from owner: Owner) {
        guard var left = owners[owner] else { return }
        left -= charge
        owners[owner] = left.isZero ? nil : left
    }

    private mutating func count(_ change: Int, _ state: SharedState, _ owner: Owner) {
        guard let path = state.orderedPlace else { return }
        let place = OwnedPlace(owner: owner, path: path)
        let left = orders[place, default: 0] + change
        orders[place] = left > 0 ? left : nil
    }
}

extension SharedState {
    /// The path of an order; nil for a view.
    fileprivate var orderedPlace: Path? { if case .order(let order) = self { order.path } else { nil } }
}
