import Scheduling

/// The account to which the engine charges a client's memory and work, in addition to limits per connection.
package enum Owner: Hashable, Sendable {
    /// The signed-in user.
    case user(String)
    /// The address of a client without an account: IPv4, or 64 bits of IPv6.
    case address(String)
    /// The /48 IPv6 network of such an address.
    case network(String)
    /// All clients without an account from other machines, together.
    case nameless
    /// All administrators together.
    case administrators
}

/// How much of a shared table one owner may have. Every table of the engine that clients fill uses this, so that no client can take all of
/// it.
package struct Share {
    /// The limit for all clients together.
    package let total: Int
    /// The limit for one user, or one address without an account.
    package let each: Int

    package init(total: Int, each: Int) { (self.total, self.each) = (total, max(1, each)) }

    package func limit(of owner: Owner) -> Int {
        switch owner {
        case .user, .address: each
        // A provider's customer may have 65,536 /64 networks, each counted as one address.
        case .network: NetworkShare.ofWide(each)
        // A quarter is left to users with an account.
        case .nameless: total - total / 4
        case .administrators: total
        }
    }
}
