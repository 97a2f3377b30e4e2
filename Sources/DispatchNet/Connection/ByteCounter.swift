import Synchronization

/// Counts the bytes that the system has taken for the peers of some connections (``Connection/sentBytes``), which may be of several loops.
public final class ByteCounter: Sendable {
    private let bytes = Atomic<Int>(0)

    public init() {}

    public func add(_ count: Int) { bytes.wrappingAdd(count, ordering: .relaxed) }

    /// From any thread.
    public var value: Int { bytes.load(ordering: .relaxed) }
}
