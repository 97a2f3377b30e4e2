import Accounts
import DispatchNet
import WireProtocols

extension Server {
    /// The client that a request's memory and work are charged to: the peer of the connection, or the address that a trusted proxy
    /// forwards (``TrustedProxies``). One comparison where no proxy is trusted.
    func client(of request: HTTPInboundRequest, _ connection: Connection) -> SocketAddress {
        let peer = connection.remoteAddress
        if settings.trustedProxies.isEmpty { return peer }
        let host = peer.host
        let client = settings.trustedProxies.client(of: request, from: host)
        return client == host ? peer : SocketAddress.numeric(client) ?? peer
    }

    /// The address that a signed-out connection's observers are charged to: an IPv4 address, or an IPv6 network of 64 bits. Nil for this
    /// machine's own addresses, where an unknown proxy may stand for many clients.
    func observingAddress(of request: HTTPInboundRequest, _ connection: Connection) -> String? {
        let client = client(of: request, connection)
        return client.isLoopback && client == connection.remoteAddress ? nil : NetworkAddress.network(of: client.host)
    }

    /// The address that refused tokens are charged to; nil for this machine's own addresses, unless `countsLoopback` is set.
    func countedAddress(of request: HTTPInboundRequest, _ connection: Connection) -> String? {
        countedAddress(observingAddress(of: request, connection), connection.remoteAddress)
    }

    /// - Parameter known: the result of `observingAddress`.
    func countedAddress(_ known: String?, _ peer: SocketAddress) -> String? {
        known ?? (settings.limits.admission.countsLoopback ? peer.network.host : nil)
    }
}
