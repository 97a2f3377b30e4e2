/// The bytes of a message that arrives in pieces, stored in blocks. So appending a piece costs only its own bytes. A single array would be
/// copied, and its pages mapped again, each time it doubles.
///
///     append ─► [ 64 KiB ][ 64 KiB ][ 12 KiB … ] ─► joined: one array, created where the message is parsed
public struct MessageBlocks: Sendable {
    /// Bytes of each block except the last.
    static let blockBytes = 64 << 10

    private var full: [[UInt8]] = []
    private var last: [UInt8] = []
    public var count: Int { full.count * Self.blockBytes + last.count }
    /// The bytes of a message that fits into one block; nil for a larger one.
    var single: [UInt8]? { full.isEmpty ? last : nil }

    init() {}

    /// O(bytes)
    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        var rest = bytes
        while rest.count > Self.blockBytes - last.count {
            let fitting = Self.blockBytes - last.count
            last.append(contentsOf: rest.prefix(fitting))
            full.append(last)
            last = []
            last.reserveCapacity(Self.blockBytes)
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(fitting))
        }
        last.append(contentsOf: rest)
    }

    /// The first bytes, at most a block of them. O(bytes)
    func prefix(_ bytes: Int) -> [UInt8] { Array((full.first ?? last).prefix(bytes)) }

    /// The address of each block, for tests.
    var places: [UnsafeRawPointer?] { (full + [last]).map { $0.withUnsafeBytes { $0.baseAddress } } }

    /// All bytes. O(n)
    public func joined() -> [UInt8] {
        if full.isEmpty { return last }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count)
        for block in full { bytes += block }
        bytes += last
        return bytes
    }
}
