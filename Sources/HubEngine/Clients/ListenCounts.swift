import JSONTree
import LiveQueries
import Scheduling
import SecurityRules

/// Whom the engine charges for what a client holds and does, beside its connection.
enum Owner: Hashable, Sendable {
    /// The user that is signed in.
    case user(String)
    /// The address of a client without an account: IPv4, or 64 bits of IPv6.
    case address(String)
    /// The IPv6 network of 48 bits that such an address is of.
    case network(String)
    /// All clients without an account that come from other machines, together.
    case nameless
    /// All administrators together.
    case administrators

    /// Every owner of what a client holds. A client has no account if it is not signed in, or is with an anonymous user: anyone can create
    /// these, so a user alone bounds nothing. Administrators, and strangers from this machine, have no owner.
    static func all(of client: Client) -> [Owner] {
        if client.identity.isAdmin { return [] }
        let user = client.identity.user.map { [Owner.user($0)] } ?? []
        guard CountTerms.concern(client.identity.auth), let address = client.address else { return user }
        return user + [.address(address)] + (NetworkShare.wide(of: address).map { [.network($0)] } ?? []) + [.nameless]
    }
}

/// How much of a table that serves all one owner may have. Every table of the engine that clients fill has its share by this, so that
/// nobody can take all of it.
struct Share {
    /// What all clients together may have.
    let total: Int
    /// What one user, or one address without an account, may have.
    let each: Int

    init(total: Int, each: Int) { (self.total, self.each) = (total, max(1, each)) }

    func limit(of owner: Owner) -> Int {
        switch owner {
        case .user, .address: each
        // A customer of a provider may have 65,536 addresses.
        case .network: NetworkShare.ofWide(each)
        // A quarter is left to users with an account.
        case .nameless: total - total / 4
        case .administrators: total
        }
    }
}

extension Client {
    /// Who is charged for its writes. Anyone can create any number of anonymous accounts, so they are charged by address; clients of this
    /// machine have none, and are charged together.
    var author: Owner {
        if identity.isAdmin { return .administrators }
        let user = CountTerms.concern(identity.auth) ? nil : identity.user
        return user.map(Owner.user) ?? .address(address ?? "")
    }
}

/// What observers count.
struct ListenCharge: Equatable, Sendable {
    var listens = 0
    /// Children in orders that no rule names, or by members of sets.
    var unindexedEntries = 0
    /// Children that live queries hold.
    var liveChildren = 0

    var isZero: Bool { self == ListenCharge() }

    static func += (one: inout ListenCharge, other: ListenCharge) {
        one.listens += other.listens
        one.unindexedEntries += other.unindexedEntries
        one.liveChildren += other.liveChildren
    }

    static func -= (one: inout ListenCharge, other: ListenCharge) {
        one.listens -= other.listens
        one.unindexedEntries -= other.unindexedEntries
        one.liveChildren -= other.liveChildren
    }
}

/// What the engine keeps once for all observers of the same: one client pays for it.
enum SharedState: Hashable {
    case order(PlaceOrder)
    case view(Path, LiveQuery, LiveQueryView.Showing)
}

/// The charges of the observers of a namespace, by owner.
///
/// An observer is charged to its client. Shared state is charged once, to the client whose observer came first. When the last observer
/// of that client ends, the charge moves to a client that still observes it, even over that one's share: it then gets nothing new.
///
/// Confined to the database queue; all in O(owners of a client), except the move of a charge: O(clients that observed the same).
struct ListenCounts {
    private(set) var total = 0
    private var owners: [Owner: ListenCharge] = [:]
    private var shared: [SharedState: Shared] = [:]
    /// Orders of a place that clients of an owner pay for.
    private var orders: [OwnedPlace: Int] = [:]

    private struct OwnedPlace: Hashable {
        let owner: Owner
        let path: Path
    }

    private final class Shared {
        var charge: ListenCharge
        var payer: Client
        /// Every client with an observer of it, with how many.
        var observers: [ObjectIdentifier: (client: Client, count: Int)] = [:]

        init(_ charge: ListenCharge, payer: Client) { (self.charge, self.payer) = (charge, payer) }
    }

    /// The owner of a client that would have more than its share, with its limit; nil for none. A client without an owner is its own.
    /// - Parameters:
    ///   - more: of the member that `charge` reads.
    ///   - share: of the table.
    func excess(_ client: Client, _ more: Int, of charge: (ListenCharge) -> Int, _ share: Share) -> (owner: Owner?, limit: Int)? {
        let owners = client.chargedOwners
        if owners.isEmpty { return charge(client.charge) + more > share.each ? (nil, share.each) : nil }
        for owner in owners {
            let limit = share.limit(of: owner)
            if (self.owners[owner].map(charge) ?? 0) + more > limit { return (owner, limit) }
        }
        return nil
    }

    /// Whether a client, its user and its address are charged nothing of the member that `charge` reads. `nameless` does not count.
    func isUncharged(_ client: Client, _ charge: (ListenCharge) -> Int) -> Bool {
        if client.chargedOwners.isEmpty { return charge(client.charge) == 0 }
        return client.chargedOwners.allSatisfy { $0 == .nameless || (owners[$0].map(charge) ?? 0) == 0 }
    }

    /// The same as `excess` for one more order at a place, which no client observes.
    func hasRoom(forOrderAt path: Path, _ client: Client, _ share: Share) -> Bool {
        let owners = client.chargedOwners
        if owners.isEmpty { return client.paid.count { $0.orderedPlace == path } < share.each }
        return owners.allSatisfy { orders[OwnedPlace(owner: $0, path: path), default: 0] < share.limit(of: $0) }
    }

    mutating func add(_ charge: ListenCharge, to client: Client) {
        total += charge.listens
        client.charge += charge
        for owner in client.chargedOwners { owners[owner, default: ListenCharge()] += charge }
    }

    mutating func remove(_ charge: ListenCharge, from client: Client) {
        total -= charge.listens
        client.charge -= charge
        for owner in client.chargedOwners { remove(charge, from: owner) }
    }

    // MARK: Shared state

    /// Whether a client observes it, so that one more observer of it costs nothing.
    func isShared(_ state: SharedState) -> Bool { shared[state] != nil }

    /// Adds an observer.
    /// - Parameter charge: of the state, if it is the first one.
    mutating func share(_ state: SharedState, with client: Client, charge: @autoclosure () -> ListenCharge) {
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

    /// Removes an observer. Nothing happens to a client that has none.
    mutating func unshare(_ state: SharedState, with client: Client) {
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

    /// Charges what shared state has become.
    mutating func recharge(_ state: SharedState, _ charge: ListenCharge) {
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

    /// Counts all that a client is charged for who it is now.
    mutating func move(_ client: Client) {
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
    /// The place whose order it is; nil for a view.
    fileprivate var orderedPlace: Path? { if case .order(let order) = self { order.path } else { nil } }
}

/// One order of one place's children.
struct PlaceOrder: Hashable, Sendable {
    let path: Path
    let ordering: TreeQuery.Index
}

extension Identity {
    /// The user that is signed in; nil for none.
    var user: String? { if case .string(let text) = auth.child("uid") { text.string } else { nil } }
}
