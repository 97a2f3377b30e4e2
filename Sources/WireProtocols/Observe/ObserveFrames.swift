/// The events of one commit at one place, for all its observers: each is encoded once, when the first observer needs it.
///
/// A subscription's frames copy the shared bytes behind its id. Used on one queue at a time.
public final class ObserveFrames {
    private let events: [ObserveEvent]
    private let seq: Int64
    private var pushes: [ObservePush?]
    /// Number of events encoded so far.
    public private(set) var encodings = 0

    /// - Parameter seq: number of the commit.
    public init(_ events: [ObserveEvent], seq: Int64) {
        self.events = events
        self.seq = seq
        pushes = Array(repeating: nil, count: events.count)
    }

    /// Appends the frame of one event for a subscription.
    /// - Parameters:
    ///   - index: of the event.
    ///   - sub: the subscription's id.
    ///   - isFollowed: whether another event of the same commit follows, and this one says so.
    public func append(_ index: Int, sub: Int64, isFollowed: Bool = false, to frames: inout [UInt8]) {
        let push = push(index)
        if isFollowed { return frames.append(contentsOf: push.frame(sub: sub, isFollowed: true)) }
        frames.append(contentsOf: push.head(sub: sub))
        frames.append(contentsOf: push.rest)
    }

    private func push(_ index: Int) -> ObservePush {
        if let known = pushes[index] { return known }
        let push = ObservePush(events[index], seq: seq)
        pushes[index] = push
        encodings += 1
        return push
    }
}
