/// The negotiated parameters of permessage-deflate (RFC 7692 §7.1), for each direction.
public struct DeflateAgreement: Sendable, Hashable {
    /// One direction of the connection.
    public struct Direction: Sendable, Hashable {
        /// The base-2 logarithm of the sender's window in bytes, 8...15 (§7.1.2).
        public var windowBits = 15
        /// Whether a message may refer to earlier ones (§7.1.1). This compresses better, but keeps both ends' windows in memory between messages.
        /// Without it one compressed message can be sent to any number of receivers.
        public var takesOverContext = true

        public init(windowBits: Int = 15, takesOverContext: Bool = true) {
            self.windowBits = windowBits
            self.takesOverContext = takesOverContext
        }
    }

    /// The direction from server to client.
    public var server = Direction()
    /// The direction from client to server.
    public var client = Direction()

    public init(server: Direction = Direction(), client: Direction = Direction()) {
        self.server = server
        self.client = client
    }
}

/// Settings of compression.
public struct DeflateSettings: Sendable, Hashable {
    /// Messages with fewer bytes are sent uncompressed: compressing small messages alone gains little. Default 256.
    package var thresholdBytes = 256
    /// Messages with more bytes are sent uncompressed: compressing one would delay the other connections of the event loop. Default 256 KiB.
    package var mostBytes = 256 << 10
    /// The base-2 logarithm of the largest window used for sending, and requested from the peer: 9...15. Default 15. Receiving takes 42 KiB
    /// regardless.
    package var windowBits = 15
    /// The memory level of a compressor's tables: 1...9. With its window a compressor takes 2^(windowBits + 2) + 2^(memoryLevel + 9) bytes while
    /// allocated: 256 KiB for 15 and 8. Default 8.
    package var memoryLevel = 8
    /// The compression level: 1...9. Default 4.
    package var level = 4
    /// Whether messages may refer to earlier ones, in both directions. Without it no state is kept between messages, and a broadcast is compressed
    /// once. Default off.
    package var takesOverContext = false

    public init() {}

    /// The settings, clamped to zlib's ranges.
    var bounded: DeflateSettings {
        var bounded = self
        bounded.windowBits = min(15, max(9, windowBits))
        bounded.memoryLevel = min(9, max(1, memoryLevel))
        bounded.level = min(9, max(1, level))
        return bounded
    }
}
