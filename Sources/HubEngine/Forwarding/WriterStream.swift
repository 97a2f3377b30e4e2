import DequeModule
import Journal
import JSONTree
import Scheduling

/// A follower's stream of forwarded requests to the writer, with their outcomes.
///
/// ```
/// request, numbered ─► encoded ─► sent, within the window ─► its commit arrives by the log ─► settled
///                                  │ a reply or message was lost,     └ refused: the reply waits for the commit
///                                  └ or the writer changed: all unsettled requests are sent again
/// ```
/// A request keeps its number until it is settled, and its commit names that number. So only one hub applies it, and only once.
///
/// Confined to the database queue.
final class WriterStream: @unchecked Sendable {
    // Sendable: background work and timers that capture it only return to the queue.

    /// The outcome of a request.
    enum Outcome {
        case carriedOut(sequence: UInt64)
        /// The writer refused the request.
        case refused(Failure)
        /// No answer arrived by the deadline, or the request could not be sent.
        case failed(Failure)
    }

    struct Entry {
        let size: Int
        /// Released once encoded.
        var request: PeerRequest?
        var frame: [UInt8]?
        var isEncoding = false
        /// True if a writer may have received the request.
        var wasSent = false
        /// Steady ms.
        let deadline: Int64
        /// The writer's reply, held until this hub has applied the commit that it names.
        var reply: PeerReply?
        var isSettled = false
        /// True while a client waits for the answer.
        var isAwaited: Bool
    }

    let context: EngineContext
    let content: Content
    let durability: DurabilityQueue
    let link: any HubLink
    let post: ([UInt8], UInt64) -> Void
    /// True if another hub is the writer.
    var isFollowing: Bool
    /// Called when a request is settled.
    var onSettled: (_ number: UInt64, Outcome) -> Void = { _, _ in }
    /// Called after one or more requests were settled.
    var onMoved: () -> Void = {}

    /// Unsettled requests, with settled ones between them.
    var entries: Deque<Entry> = []
    /// Number of the first entry.
    var base: UInt64 = 1
    var place = PeerMessage.StreamPosition()
    /// The hub that `place.term` belongs to.
    var asked: UInt64?
    /// Entries before this one were sent in the current stream; `inFlight` counts the bytes of those that are not settled.
    var cursor = 0
    var inFlight = 0
    /// The share of the process's memory budget that `inFlight` takes.
    let held: MemoryLease
    /// When a message was last sent, or its arrival confirmed, steady ms.
    var movedAt: Int64 = 0
    var received: UInt64 = 0
    /// Number of replies that wait for a commit.
    var heldReplyCount = 0
    private var isPumping = false
    var isTicking = false

    init(
        _ context: EngineContext, _ pipeline: BatchPipeline, _ link: any HubLink, isFollowing: Bool,
        _ post: @escaping ([UInt8], UInt64) -> Void
    ) {
        self.context = context
        (content, durability) = (pipeline.content, pipeline.durability)
        (self.link, self.isFollowing, self.post) = (link, isFollowing, post)
        held = MemoryLease(MemoryShare(of: context.budget), for: .incoming)
    }

    var limits: EngineLimits { context.limits }

    // MARK: Requests

    /// Appends a request.
    /// - Returns: its number.
    @discardableResult
    func add(_ request: PeerRequest, size: Int, isAwaited: Bool, deadline: Int64) -> UInt64 {
        var request = request
        request.number = base + UInt64(entries.count)
        entries.append(Entry(size: size, request: request, deadline: deadline, isAwaited: isAwaited))
        pumpLater()
        tickLater()
        return request.number
    }

    /// The client has received the answer.
    func answered(_ number: UInt64) { if let i = index(of: number) { entries[i].isAwaited = false } }

    // MARK: Sending

    func pumpLater() {
        if isPumping { return }
        isPumping = true
        context.queue.async { [self] in
            isPumping = false
            pump()
        }
    }

    var target: UInt64? {
        switch link.writer {
        case .here: link.hub
        case .hub(let hub): hub
        case .unknown: nil
        }
    }

    /// Sends the next requests, within the window.
    private func pump() {
        guard place.joined != 0, place.term != 0, let target, target == asked else { return }
        var message: [UInt8] = []
        func flush() {
            guard !message.isEmpty else { return }
            send(.requests(here, message), to: target)
            message = []
        }
        let room = link.messageBytes - PeerMessage.headerBytes
        while cursor < entries.count, cursor < limits.forwardedRequests {
            if entries[cursor].isSettled {
                cursor += 1
                continue
            }
            guard let frame = frame(at: cursor) else { break }
            if frame.count > limits.forwardedBytes {
                settle(cursor, .failed(.tooLargeToForward(limits.forwardedBytes)))
                continue
            }
            guard inFlight == 0 || inFlight + frame.count <= limits.forwardedBytes && held.become(inFlight + frame.count) else { break }
            inFlight += frame.count
            // The first request is sent even over budget, but it is counted.
            _ = held.become(inFlight)
            entries[cursor].wasSent = true
            cursor += 1
            if message.count + frame.count > room { flush() }
            if frame.count <= room { message += frame } else { sendInParts(frame, room, to: target) }
            if message.count > Self.bytesAtOnce { flush() }
        }
        flush()
        // If the window is full, the next reply or tick continues.
        if removeAnswered(), cursor < entries.count { pumpLater() }
    }

    /// A message of more bytes than this is sent before further requests are added.
    private static let bytesAtOnce = 256 << 10

    var here: PeerMessage.StreamPosition {
        var here = place
        here.base = base
        return here
    }

    private func send(_ message: PeerMessage, to target: UInt64) {
        place.index += 1
        movedAt = context.scheduler.steadyMs
        post(message.encoded, target)
    }

    private func sendInParts(_ frame: [UInt8], _ room: Int, to target: UInt64) {
        let count = (frame.count + room - 1) / room
        for i in 0..<count {
            let part = Array(frame[(i * room)..<min(frame.count, (i + 1) * room)])
            send(.part(here, number: UInt32(i), of: UInt32(count), part), to: target)
        }
    }

    /// The encoded request; nil while a large one is being encoded in the background.
    private func frame(at i: Int) -> [UInt8]? {
        if let frame = entries[i].frame { return frame }
        guard let request = entries[i].request, !entries[i].isEncoding else { return nil }
        if entries[i].size <= limits.largeWriteBytes {
            let frame = request.encoded
            (entries[i].frame, entries[i].request) = (frame, nil)
            return frame
        }
        entries[i].isEncoding = true
        context.background.run(.preparation) { [self] in
            let frame = request.encoded
            context.queue.async { [self] in
                guard let i = index(of: request.number), !entries[i].isSettled else { return }
                (entries[i].frame, entries[i].request, entries[i].isEncoding) = (frame, nil, false)
                pump()
                durability.finishBatch()
            }
        }
        return nil
    }

    func index(of number: UInt64) -> Int? {
        number >= base && number - base < UInt64(entries.count) ? Int(number - base) : nil
    }

    /// Begins a new stream with all unsettled requests.
    func sendAgain() {
        place.stream += 1
        place.index = 0
        (cursor, inFlight, received) = (0, 0, 0)
        held.shrink(to: 0)
        movedAt = context.scheduler.steadyMs
        pumpLater()
    }
}

extension Failure {
    fileprivate static func tooLargeToForward(_ limit: Int) -> Failure {
        Failure(.tooBig, "At most \(limit) bytes may be written through a hub that does not write itself: send it to the one that does.")
    }
}
