import Dispatch
import Glibc
import Synchronization

/// The addresses of a host name, in the order to try; nil if it cannot be resolved. Blocks. Tests have their own.
typealias HostLookup = @Sendable (_ host: String) -> [IPAddress]?

/// Threads for lookups, which block for many seconds when a name server does not answer. Serial queues have threads of their own; on a
/// concurrent queue, blocked lookups would take the threads of the process's other work.
final class LookupThreads: Sendable {
    /// Idle queues; as many exist as were needed at once.
    private let idle = Mutex<[DispatchQueue]>([])

    func run(_ lookup: @escaping @Sendable () -> Void) {
        let queue = idle.withLock { $0.popLast() } ?? DispatchQueue(label: "vigla.lookups")
        queue.async { [self] in
            lookup()
            idle.withLock { $0.append(queue) }
        }
    }
}

/// Lookups by the system's resolver.
enum SystemLookup {
    static let lookup: HostLookup = { host in
        // Such names always mean this machine (RFC 6761 §6.3), whatever a name server says.
        if host == "localhost" || host.hasSuffix(".localhost") { return ["127.0.0.1", "::1"].compactMap(IPAddress.init) }
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        // No IPv6 addresses without IPv6.
        hints.ai_flags = AI_ADDRCONFIG
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, nil, &hints, &list) == 0 else { return nil }
        defer { freeaddrinfo(list) }
        var found: [IPAddress] = []
        var next = list
        while let entry = next?.pointee {
            if let address = entry.ai_addr, let ip = IPAddress(address), !found.contains(ip) { found.append(ip) }
            next = entry.ai_next
        }
        return found.isEmpty ? nil : found
    }
}
