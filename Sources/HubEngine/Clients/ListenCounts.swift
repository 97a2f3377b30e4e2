import JSONTree
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
        return user + [.address(address)] + (network(of: address).map { [.network($0)] } ?? []) + [.nameless]
    }

    /// The network of 48 bits of an address that is written as `0123456789abcdef/64`; nil for IPv4.
    static func network(of address: String) -> String? {
        guard address.hasSuffix("/64"), address.utf8.count == 19 else { return nil }
        return address.prefix(12) + "/48"
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
    /// Children that live queries hold, at most.
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

/// The charges of the observers of a namespace, by owner. Confined to the database queue; all in O(owners of a client).
struct ListenCounts {
    private(set) var total = 0
    private var owners: [Owner: ListenCharge] = [:]
    /// Orders that clients of an owner observe at a place and are charged for.
    private var orders: [OwnedPlace: Int] = [:]

    private struct OwnedPlace: Hashable {
        let owner: Owner
        let path: Path
    }

    /// The owner of a client that would have more than its share, with its limit; nil for none. A client without an owner is its own.
    /// - Parameters:
    ///   - more: of what `charge` tells.
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

    /// Whether a client, its user and its address have nothing of what `charge` tells. What all strangers have does not count.
    func isUncharged(_ client: Client, _ charge: (ListenCharge) -> Int) -> Bool {
        if client.chargedOwners.isEmpty { return charge(client.charge) == 0 }
        return client.chargedOwners.allSatisfy { $0 == .nameless || (owners[$0].map(charge) ?? 0) == 0 }
    }

    /// The same as `excess` for one more order at a place.
    func hasRoom(forOrderAt path: Path, _ client: Client, _ share: Share) -> Bool {
        let owners = client.chargedOwners
        if owners.isEmpty { return client.unindexed.keys.count { $0.path == path } < share.each }
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

    /// Notes that a client observes one order more, or less, of a place.
    mutating func count(_ change: Int, ordersAt path: Path, of client: Client) {
        for owner in client.chargedOwners { count(change, OwnedPlace(owner: owner, path: path)) }
    }

    /// Counts all of a client's observers for who it is now.
    mutating func move(_ client: Client) {
        let owners = Owner.all(of: client)
        guard owners != client.chargedOwners else { return }
        for owner in client.chargedOwners {
            remove(client.charge, from: owner)
            for order in client.unindexed.keys { count(-1, OwnedPlace(owner: owner, path: order.path)) }
        }
        client.chargedOwners = owners
        for owner in owners {
            if !client.charge.isZero { self.owners[owner, default: ListenCharge()] += client.charge }
            for order in client.unindexed.keys { count(1, OwnedPlace(owner: owner, path: order.path)) }
        }
    }

    private mutating func remove(_ charge: ListenCharge, from owner: Owner) {
        guard var left = owners[owner] else { return }
        left -= charge
        owners[owner] = left.isZero ? nil : left
    }

    private mutating func count(_ change: Int, _ place: OwnedPlace) {
        let left = orders[place, default: 0] + change
        orders[place] = left > 0 ? left : nil
    }
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
