import DispatchNet
import Glibc
import HubServer
import Scheduling

/// Whether the ports are free, or a hub is using them.
struct PortCheck {
    private(set) var findings: [Finding] = []

    /// - Parameter isTLSKnown: false when the TLS options are faulty, so that the TLS ports are unknown.
    init(_ settings: ServerSettings, isTLSKnown: Bool) {
        let isTLSOnly = settings.tls != nil && settings.tls?.port == nil
        check(settings.host, settings.port, isSecure: isTLSOnly)
        if let port = settings.tls?.port { check(settings.host, port, isSecure: true) }
        if !Checks.isLoopback(settings.host), settings.tls == nil, isTLSKnown {
            findings.append(.warning(
                "port", "\(settings.host) can be reached from other machines, without TLS: passwords and tokens travel in the open",
                "put a proxy with TLS before it and listen on 127.0.0.1, or: --tls-cert FILE --tls-key FILE (docs/tls.md)"))
        }
    }

    private mutating func check(_ host: String, _ port: UInt16, isSecure: Bool) {
        let place = "\(host):\(port)"
        if port == 0 { return findings.append(.good("port", "\(host), a port that the system chooses")) }
        do throws(NetError) {
            try Listener.bind(host: host, port: port).stop()
            findings.append(.good("port", "\(place) is free"))
        } catch {
            switch error {
            case .bindFailed(_, EADDRINUSE):
                if !isSecure, Self.isHub(port) {
                    findings.append(.good("port", "a hub answers at \(place)"))
                } else {
                    findings.append(.warning(
                        "port", "\(place) is in use" + (isSecure ? " (by this hub, if it runs)" : " by another program than a hub"),
                        "ss -ltnp 'sport = :\(port)' shows who has it; or choose another: --port NUMBER"))
                }
            case .bindFailed(_, EACCES):
                findings.append(.wrong(
                    "port", "\(place): ports below 1024 need a capability",
                    "setcap cap_net_bind_service=+ep $(command -v vigla), or in the unit: AmbientCapabilities=CAP_NET_BIND_SERVICE"))
            default: findings.append(.wrong("port", "\(error)", "--host takes an address of this machine: 127.0.0.1, or 0.0.0.0 for all"))
            }
        }
    }

    /// Whether a hub answers on the port of this machine, within a second.
    private static func isHub(_ port: UInt16) -> Bool {
        let peer = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard peer >= 0 else { return false }
        defer { close(peer) }
        var patience = timeval(tv_sec: 1, tv_usec: 0)
        setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let isConnected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(peer, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0 }
        }
        guard isConnected else { return false }
        let request = Array("GET /.health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
        guard send(peer, request, request.count, Int32(MSG_NOSIGNAL)) == request.count else { return false }
        // Limit the answer: another program may send without end.
        var (answer, count) = ([UInt8](repeating: 0, count: 4096), 0)
        let end = SystemTime.steadyNs + 1_000_000_000
        while count < answer.count, SystemTime.steadyNs < end {
            let got = answer.withUnsafeMutableBytes { recv(peer, $0.baseAddress.map { $0 + count }, $0.count - count, 0) }
            if got <= 0 { break }
            count += got
        }
        return String(decoding: answer.prefix(count), as: UTF8.self).contains("{\"status\":")
    }
}
