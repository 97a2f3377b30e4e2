/// The connection between the hubs of a cluster, for one namespace. Messages may be lost, duplicated and reordered. Only the databases of
/// the two hubs interpret them.
///
/// From any thread.
public protocol HubLink: AnyObject, Sendable {
    /// This hub's id: a new number for each run of the process.
    var hub: UInt64 { get }
    /// Maximum size of one message.
    var messageBytes: Int { get }
    /// The current writer as far as this hub knows. Safety does not depend on it: the log decides.
    var writer: HubWriter { get }
    /// Whether a heartbeat of the hub arrived recently.
    func isAlive(_ hub: UInt64) -> Bool
    /// Whether this hub has received heartbeats for long enough to declare another hub absent.
    var isMembershipKnown: Bool { get }
    func send(_ message: [UInt8], to hub: UInt64)
    /// Starts to receive; called once. Calls back on any thread, one message of each hub at a time.
    func listen(_ receive: @escaping @Sendable (HubEvent) -> Void)
}

extension HubLink {
    public var isMembershipKnown: Bool { true }
}

/// The writer of a namespace.
public enum HubWriter: Sendable, Equatable {
    case here
    case hub(UInt64)
    /// Currently unknown.
    case unknown
}

public enum HubEvent: Sendable {
    case message([UInt8], from: UInt64)
    /// The writer changed or is unknown; another hub came or went; or this hub receives heartbeats again, or no longer.
    case writerChanged
}

/// Session names in a cluster start with the hub at which the session began.
///
///     00f3a87c11d2e09b-Kx3…
public enum SessionName {
    /// The prefix of the names of a hub's sessions.
    public static func prefix(of hub: UInt64) -> String {
        let digits = String(hub, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits + "-"
    }

    /// Nil for a name assigned outside a cluster.
    public static func hub(of name: String) -> UInt64? {
        let start = name.utf8.prefix(17)
        guard start.count == 17, start.last == UInt8(ascii: "-"), let digits = String(start.dropLast()), digits.allSatisfy(\.isHexDigit)
        else { return nil }
        return UInt64(digits, radix: 16)
    }
}
