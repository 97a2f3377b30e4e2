internal import Glibc

/// An error before a connection exists. After that, see ``CloseReason``.
public enum NetError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The kernel refused a descriptor or a registration; `call` names the system call.
    case system(call: String, errno: Int32)
    /// The host name has no address; `code` is a getaddrinfo code.
    case unresolved(host: String, code: Int32)
    /// The address is in use, or not this machine's.
    case bindFailed(address: String, errno: Int32)
    /// The connection was refused, or there is no route: the errno of the last address tried.
    case connectFailed(address: String, errno: Int32)
    /// The peer did not answer within ``NetSettings/connectTimeoutMs``.
    case connectTimedOut(address: String)
    /// The TLS handshake failed, or the certificate is not trusted.
    case tlsFailed(peer: String, reason: String)
    /// The loop was shut down.
    case loopClosed

    public var description: String {
        switch self {
        case .system(let call, let errno): "\(call) failed: \(reason(errno))"
        case .unresolved(let host, let code):
            "no address for \(host): \(gai_strerror(code).map { String(cString: $0) } ?? "getaddrinfo \(code)")"
        case .bindFailed(let address, let errno): "cannot listen on \(address): \(reason(errno))"
        case .connectFailed(let address, let errno): "cannot connect to \(address): \(reason(errno))"
        case .connectTimedOut(let address): "no answer from \(address) in time"
        case .tlsFailed(let peer, let reason): "no secure connection to \(peer): \(reason)"
        case .loopClosed: "the loop is shut down"
        }
    }

    /// The system's text for an errno.
    private func reason(_ errno: Int32) -> String {
        strerror(errno).map { String(cString: $0) } ?? "errno \(errno)"
    }
}
