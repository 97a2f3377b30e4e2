/// What one client may ask of a database. Over a limit the request is refused and nothing else is lost.
public struct EngineLimits: Sendable {
    /// Bytes of one answer or first content, as sent; more is answered with `too_big`. Default 48 MiB: below what may wait for
    /// a slow reader.
    public var readBytes = 48 << 20
    /// Writes that one client may have waiting for its disconnect. Default 1,000.
    public var pendingWrites = 1_000

    public init() {}
}
