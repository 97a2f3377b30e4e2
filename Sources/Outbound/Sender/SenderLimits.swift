/// Limits of outgoing requests. Constants, except in tests.
public struct SenderLimits: Sendable, Equatable {
    /// Most requests at once, in total and to one host.
    package var atOnce = 256, atOncePerHost = 64
    /// Most requests at once to hosts that have never answered, together, and to hosts that failed: others keep the rest.
    package var atOnceToNew = 64, atOnceToFailed = 64
    /// After so many slow or failed exchanges in a row, a host that had answered counts as failed.
    package var failuresInARow = 3
    /// Most requests that wait for their turn, in total and for one host; of the total, places that are free count, too.
    package var waiting = 50_000, waitingPerHost = 25_000
    /// Most bytes of bodies that wait or are being sent.
    package var waitingBytes = 64 << 20
    /// How long a request waits for its turn.
    package var waitMs: Int64 = 30_000
    /// A host that answers within this time is proven, and a name that is found within it is known.
    package var promptMs: Int64 = 2_000
    /// Timeouts in ms for looking up a name, for connecting, and for the whole exchange.
    package var lookupMs = 5_000, connectMs = 5_000, exchangeMs = 10_000
    /// Most bytes of an answer's head, and of its body: the rest is not read.
    package var headBytes = 16 << 10, bodyBytes = 16 << 10
    /// How long unused connections are kept, once there are no requests at all.
    package var idleMs: Int64 = 30_000
    /// The age up to which an unused connection is used again while there are other requests, in s of real time, which libcurl measures.
    package var reuseSeconds = 118
    /// Most lookups at once of known names, and of new names; names whose last lookup was slow have half as many.
    package var lookupsAtOnce = 16
    /// Most names whose addresses are kept.
    package var names = 10_000
    /// How long addresses of a name are used without looking it up again, and how long while it is looked up again.
    package var namesFreshMs: Int64 = 60_000, namesStaleMs: Int64 = 600_000
    /// Most mails sent at once, and most that wait for it, with most bytes of their texts.
    package var mailsAtOnce = 4, mailsWaiting = 1_000, mailBytesWaiting = 32 << 20

    public init() {}
}
