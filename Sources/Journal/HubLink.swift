/// The way between the hubs of a cluster, for one namespace. Messages may be lost, doubled, and come in any order; what they say is between
/// the databases of the two hubs.
///
/// From any thread.
public protocol HubLink: AnyObject, Sendable {
    /// This hub: a number of its own for each life of the process.
    var hub: UInt64 { get }
    /// Most bytes of one message.
    var messageBytes: Int { get }
    /// Who writes the namespace, as far as this hub knows. Safety does not rest on it: the log decides.
    var writer: HubWriter { get }
    /// Whether a hub was heard of lately.
    func isAlive(_ hub: UInt64) -> Bool
    /// Whether this hub has heard all others for long enough to say that one is not there.
    var hears: Bool { get }
    func send(_ message: [UInt8], to hub: UInt64)
    /// Begins to hear; called once. Calls back on any thread, one message of a hub at a time.
    func listen(_ receive: @escaping @Sendable (HubNews) -> Void)
}

extension HubLink {
    public var hears: Bool { true }
}

/// The hub that writes a namespace.
public enum HubWriter: Sendable, Equatable {
    case here
    case hub(UInt64)
    /// None is known at the moment.
    case unknown
}

public enum HubNews: Sendable {
    case message([UInt8], from: UInt64)
    /// Another hub writes, or none; one came or went; or this one hears them again, or no longer.
    case writerChanged
}

/// The names of sessions in a cluster: they tell the hub that the session was begun at.
///
///     00f3a87c11d2e09b-Kx3…
public enum SessionName {
    /// What names of sessions of a hub begin with.
    public static func prefix(of hub: UInt64) -> String {
        let digits = String(hub, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits + "-"
    }

    /// Nil for a name that was given outside a cluster.
    public static func hub(of name: String) -> UInt64? {
        let start = name.utf8.prefix(17)
        guard start.count == 17, start.last == UInt8(ascii: "-"), let digits = String(start.dropLast()), digits.allSatisfy(\.isHexDigit)
        else { return nil }
        return UInt64(digits, radix: 16)
    }
}
