/// What one client may ask of a database. Over a limit the request is refused and nothing else is lost.
public struct EngineLimits: Sendable {
    /// Bytes of one answer or first content; more is answered with `too_big`. A client that would have to be told more at once
    /// is disconnected. Default 48 MiB: below what may wait for a slow reader.
    public var readBytes = 48 << 20
    /// Bytes of a value up to which it is encoded on the database queue, escapes not counted; larger ones are encoded beside it.
    /// Default 64 KiB.
    public var inlineBytes = 64 << 10
    /// Writes that one client may have waiting for its disconnect. Default 1,000.
    public var pendingWrites = 1_000
    /// Bytes of answers that may be on their way to one client before its next request is carried out. Default 1 MiB.
    public var answerBytes = 1 << 20
    /// Changed places that are remembered for an observer of a client that reads too slowly; beyond it the observer gets its
    /// whole place again. Default 64.
    public var stalePlaces = 64
    /// Bytes of requests that may wait for a database, for its queue or its journal, before those who ask are read no more.
    /// Default 256 MiB.
    public var waitingBytes = 256 << 20
    /// ms between two tries while the log refuses commits. Default 1,000.
    public var retryMs = 1_000

    public init() {}
}
