import Synchronization

/// Counts bytes of connections, possibly on several loops: bytes that the kernel has accepted (``Connection/sentBytes``), or bytes
/// that wait for slow peers.
public final class ByteCounter: Sendable {
    private let bytes = Atomic<Int>(0)

    public init() {}

    public func add(_ count: Int) { bytes.wrappingAdd(count, ordering: .relaxed) }

    /// From any thread.
    public var value: Int { bytes.load(ordering: .relaxed) }
}
