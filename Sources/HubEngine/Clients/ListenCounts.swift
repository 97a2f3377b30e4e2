import JSONTree
import SecurityRules

/// Who is charged for what a client does, beside its connection.
enum Owner: Hashable, Sendable {
    /// The user that is signed in.
    case user(String)
    /// No user is signed in: the address of the connection.
    case address(String)
    /// All administrators together.
    case administrators
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

    var isZero: Bool { self == ListenCharge() }

    static func += (one: inout ListenCharge, other: ListenCharge) {
        one.listens += other.listens
        one.unindexedEntries += other.unindexedEntries
    }

    static func -= (one: inout ListenCharge, other: ListenCharge) {
        one.listens -= other.listens
        one.unindexedEntries -= other.unindexedEntries
    }
}

/// The charges of the observers of a namespace, by owner. Confined to the database queue; all in O(1).
struct ListenCounts {
    private(set) var total = 0
    private var owners: [Owner: ListenCharge] = [:]

    func charge(of owner: Owner?) -> ListenCharge { owner.flatMap { owners[$0] } ?? ListenCharge() }

    mutating func add(_ charge: ListenCharge, to client: Client) {
        total += charge.listens
        client.charge += charge
        if let owner = client.chargedOwner { owners[owner, default: ListenCharge()] += charge }
    }

    mutating func remove(_ charge: ListenCharge, from client: Client) {
        total -= charge.listens
        client.charge -= charge
        remove(charge, from: client.chargedOwner)
    }

    /// Counts all of a client's observers for who it is now.
    mutating func move(_ client: Client) {
        let owner = client.identity.isAdmin ? nil : client.identity.user.map { Owner.user($0) } ?? client.address.map { Owner.address($0) }
        guard owner != client.chargedOwner else { return }
        remove(client.charge, from: client.chargedOwner)
        client.chargedOwner = owner
        if let owner, !client.charge.isZero { owners[owner, default: ListenCharge()] += client.charge }
    }

    private mutating func remove(_ charge: ListenCharge, from owner: Owner?) {
        guard let owner, var left = owners[owner] else { return }
        left -= charge
        owners[owner] = left.isZero ? nil : left
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
