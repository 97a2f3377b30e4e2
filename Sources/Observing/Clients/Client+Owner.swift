package import Commits
import JSONTree
import SecurityRules
import Scheduling

extension Owner {
    /// All owners charged for a client. A client that is signed out or has an anonymous user counts as without an account: anyone can
    /// create such users, so a limit per user alone bounds nothing. Administrators, and clients without an account on this machine, have no
    /// owner.
    package static func all(of client: Client) -> [Owner] {
        if client.identity.isAdmin { return [] }
        let user = client.identity.user.map { [Owner.user($0)] } ?? []
        guard CountTerms.concern(client.identity.auth), let address = client.address else { return user }
        return user + [.address(address)] + (NetworkShare.wide(of: address).map { [.network($0)] } ?? []) + [.nameless]
    }
}

extension Client {
    /// The owner charged for its writes. Anyone can create any number of anonymous accounts, so these are charged by address. Clients of
    /// this machine have no address and are charged together.
    package var author: Owner {
        if identity.isAdmin { return .administrators }
        let user = CountTerms.concern(identity.auth) ? nil : identity.user
        return user.map(Owner.user) ?? .address(address ?? "")
    }
}
