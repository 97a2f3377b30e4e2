import Dispatch
import Synchronization

/// Decodes messages of other hubs for one database, off the database queue, and joins the parts of large requests.
///
///     message ─► dropped when too many bytes wait ─► own queue: decode, join ─► database queue
///
/// Thread-safe.
final class PeerInbox: @unchecked Sendable {
    // Sendable: `parts` is confined to `queue`; the rest is immutable or guards itself.

    /// A decoded message.
    enum PeerFrame: Sendable {
        case join
        case probe(PeerMessage.StreamPosition)
        /// - messages: number of messages of the stream that this holds; the place is that of the last one.
        case requests(PeerMessage.StreamPosition, messages: UInt64, [PeerRequest], bytes: Int)
        case state(PeerMessage.StreamPosition)
        case replies(term: UInt64, [PeerReply])
    }

    private struct Parts {
        var place: PeerMessage.StreamPosition
        var next: UInt32
        let of: UInt32
        var bytes: [UInt8]
    }

    private let queue = DispatchQueue(label: "vigla.database.peers")
    private let most: Int
    private let waiting = Atomic<Int>(0)
    private let share: MemoryShare
    /// Partly received requests, by hub. Together at most `most` bytes.
    private var parts: [UInt64: Parts] = [:]
    private let deliver: @Sendable (PeerFrame, UInt64) -> Void

    /// - Parameter most: bytes that may wait to be decoded, and bytes that partly received requests may hold.
    /// - Parameter budget: the memory budget of the process, charged for waiting messages.
    init(most: Int, of budget: MemoryBudget, _ deliver: @escaping @Sendable (PeerFrame, UInt64) -> Void) {
        self.most = most
        share = MemoryShare(of: budget)
        self.deliver = deliver
    }

    /// Delivers the messages of one hub in the order of arrival. A message over the limit is dropped; the sender repeats it.
    func receive(_ message: [UInt8], from hub: UInt64) {
        let count = message.count
        guard waiting.add(count, ordering: .relaxed).newValue <= most else {
            waiting.subtract(count, ordering: .relaxed)
            return
        }
        // Charge only messages of `chargedBytes` or more to the budget: smaller ones are not worth the cost.
        let charged = count >= Self.chargedBytes ? count : 0
        guard charged == 0 || share.reserve(charged, for: .incoming) == nil else {
            waiting.subtract(count, ordering: .relaxed)
            return
        }
        queue.async { [self] in
            read(message, hub)
            waiting.subtract(count, ordering: .relaxed)
            if charged > 0 { share.release(charged, from: .incoming) }
        }
    }

    private static let chargedBytes = 4 << 10

    /// Waits until all received messages are delivered.
    func readAll() { queue.sync {} }

    private func read(_ bytes: [UInt8], _ hub: UInt64) {
        switch PeerMessage(decoding: bytes) {
        case nil: return
        case .join: deliver(.join, hub)
        case .probe(let place): deliver(.probe(place), hub)
        case .state(let place): deliver(.state(place), hub)
        case .replies(let term, let replies): deliver(.replies(term: term, replies), hub)
        case .requests(let place, let bytes):
            if let requests = PeerRequest.all(in: bytes) { deliver(.requests(place, messages: 1, requests, bytes: bytes.count), hub) }
        case .part(let place, let number, let count, let part): join(part, place, number, of: count, hub)
        }
    }

    private func join(_ part: [UInt8], _ place: PeerMessage.StreamPosition, _ number: UInt32, of count: UInt32, _ hub: UInt64) {
        if number == 0 { parts[hub] = Parts(place: place, next: 0, of: count, bytes: []) }
        guard var open = parts.removeValue(forKey: hub), number == open.next, count == open.of, place.stream == open.place.stream,
            place.term == open.place.term, place.index == open.place.index &+ (number == 0 ? 0 : 1),
            parts.values.reduce(open.bytes.count + part.count, { $0 + $1.bytes.count }) <= most
        else { return }
        open.bytes += part
        open.next += 1
        open.place = place
        guard open.next == count else {
            parts[hub] = open
            return
        }
        guard let requests = PeerRequest.all(in: open.bytes) else { return }
        deliver(.requests(place, messages: UInt64(count), requests, bytes: open.bytes.count), hub)
    }
}
