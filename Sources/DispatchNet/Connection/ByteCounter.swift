import Synchronization

/// Counts bytes of connections that may be of several loops: those that the system has taken for peers (``Connection/sentBytes``), or those
/// that wait for slow ones.
public final class ByteCounter: Sendable {
    private let bytes = Atomic<Int>(0)

    public init() {}

    public func add(_ count: Int) { bytes.wrappingAdd(count, ordering: .relaxed) }

    /// From any thread.
    public var value: Int { bytes.load(ordering: .relaxed) }
}
