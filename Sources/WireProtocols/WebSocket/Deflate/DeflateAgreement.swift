/// The negotiated parameters of permessage-deflate (RFC 7692 §7.1), for each direction.
public struct DeflateAgreement: Sendable, Hashable {
    /// One direction of the connection.
    public struct Direction: Sendable, Hashable {
        /// The sender's window is 2 to this power of bytes, 8...15 (§7.1.2).
        public var windowBits = 15
        /// Whether a message may refer to the messages before it (§7.1.1): compresses better, and keeps both ends' windows
        /// in memory between messages. Without it one compressed message can be sent to any number of receivers.
        public var takesOverContext = true

        public init(windowBits: Int = 15, takesOverContext: Bool = true) {
            self.windowBits = windowBits
            self.takesOverContext = takesOverContext
        }
    }

    /// What the server sends.
    public var server = Direction()
    /// What the client sends.
    public var client = Direction()

    public init(server: Direction = Direction(), client: Direction = Direction()) {
        self.server = server
        self.client = client
    }
}

/// Settings of compression.
public struct DeflateSettings: Sendable, Hashable {
    /// Messages with fewer bytes are sent uncompressed: compressing them alone gains little. Default 256.
    public var thresholdBytes = 256
    /// Messages with more bytes are sent uncompressed: compressing one would delay the other connections of the net loop. Default
    /// 256 KiB.
    public var mostBytes = 256 << 10
    /// The largest window that is used for sending, and asked for from the peer: 2 to this power of bytes, 9...15.
    /// Default 15. Receiving takes 42 KiB for any.
    public var windowBits = 15
    /// How much memory a compressor has for its tables: 1...9; with the window it takes 2^(windowBits + 2) + 2^(memoryLevel + 9)
    /// bytes while it exists, 256 KiB for 15 and 8. Default 8.
    public var memoryLevel = 8
    /// How hard a compressor tries: 1...9. Default 4.
    public var level = 4
    /// Whether messages may refer to earlier ones, in both directions. Without it nothing is held between messages, and a broadcast
    /// message is compressed once. Default off.
    public var takesOverContext = false

    public init() {}

    /// Within what zlib takes.
    var bounded: DeflateSettings {
        var bounded = self
        bounded.windowBits = min(15, max(9, windowBits))
        bounded.memoryLevel = min(9, max(1, memoryLevel))
        bounded.level = min(9, max(1, level))
        return bounded
    }
}
