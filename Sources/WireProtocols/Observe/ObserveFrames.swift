/// The events of one commit at one place, for all its observers. Each is encoded once, when the first observer needs it.
///
/// A subscription's frame is its id followed by a copy of the shared bytes. Used on one queue at a time.
public final class ObserveFrames {
    private let events: [ObserveEvent]
    private let seq: Int64
    private var pushes: [ObservePush?]
    /// The number of events encoded so far.
    public private(set) var encodings = 0

    /// - Parameter seq: the commit's sequence number.
    public init(_ events: [ObserveEvent], seq: Int64) {
        self.events = events
        self.seq = seq
        pushes = Array(repeating: nil, count: events.count)
    }

    /// Appends the frame of one event for a subscription.
    /// - Parameters:
    ///   - index: the index of the event.
    ///   - sub: the subscription's id.
    ///   - isFollowed: whether another event of the same commit follows; the frame includes this.
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
