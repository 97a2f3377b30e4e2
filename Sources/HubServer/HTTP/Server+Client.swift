import Accounts
import DispatchNet
import WireProtocols

extension Server {
    /// Whom a request counts for, in memory and in turns: whoever has connected, or the one for whom a known proxy asks
    /// (``TrustedProxies``). Costs a comparison where no proxy is known.
    func client(of request: HTTPInboundRequest, _ connection: Connection) -> SocketAddress {
        let peer = connection.remoteAddress
        if settings.trustedProxies.isEmpty { return peer }
        let host = peer.host
        let client = settings.trustedProxies.client(of: request, from: host)
        return client == host ? peer : SocketAddress.numeric(client) ?? peer
    }

    /// Whom a connection's observers count for while nobody is signed in: an IPv4 address, or an IPv6 network of 64 bits. Nil for this
    /// machine's own addresses: a proxy that is not known to be one stands for many.
    func observingAddress(of request: HTTPInboundRequest, _ connection: Connection) -> String? {
        let client = client(of: request, connection)
        return client.isLoopback && client == connection.remoteAddress ? nil : NetworkAddress.network(of: client.host)
    }

    /// Whose refused tokens are counted together; nil for this machine's own addresses, unless they count like others.
    func countedAddress(of request: HTTPInboundRequest, _ connection: Connection) -> String? {
        countedAddress(observingAddress(of: request, connection), connection.remoteAddress)
    }

    /// - Parameter known: as `observingAddress` says.
    func countedAddress(_ known: String?, _ peer: SocketAddress) -> String? {
        known ?? (settings.limits.admission.countsLoopback ? peer.network.host : nil)
    }
}
