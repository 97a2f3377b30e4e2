import JSONTree
import Synchronization

/// Sends changes to observers. Each is encoded once per style: a small one on the queue, a large one off it. A large one keeps its place in the order
/// of deliveries.
///
/// ```
/// queue:     … answer, event, [ deferred ], answer …  ──────────────────► lane: later deliveries of these clients wait
/// encoding:                         └► measure, encode ─► filled ────────────┘
/// ```
/// A client that is sent a large change gets a probe after it. Its requests and its value observers are held until it has read the change.
/// Confined to the database queue.
final class ChangeSender {
    private let context: EngineContext
    private let format: any WireFormat
    private let outbox: Outbox
    private let slowReaders: SlowReaders
    private let encodings: EncodeQueue
    private let pacing: Pacing

    init(
        _ context: EngineContext, _ format: any WireFormat, _ outbox: Outbox, _ slowReaders: SlowReaders, _ encodings: EncodeQueue,
        _ pacing: Pacing
    ) {
        self.context = context
        self.format = format
        self.outbox = outbox
        self.slowReaders = slowReaders
        self.encodings = encodings
        self.pacing = pacing
    }

    private var limits: EngineLimits { context.limits }

    /// A frame that several views send.
    struct SharedFrame {
        var bytes: [UInt8]?
        var later: DeferredBytes?
    }

    /// A change for several receivers.
    func shared(_ change: consuming ViewChange) -> EncodedChange {
        EncodedChange(change, format, inlineBytes: limits.inlineBytes, readBytes: limits.readBytes)
    }

    /// Sends a change to all observers of a view.
    /// - Parameters:
    ///   - written: the places written below the view's; empty if all of it may differ.
    ///   - frame: the frame that other views send for the same change; nil if this view shares none.
    func send(_ change: consuming ViewChange, to view: View, _ written: ArraySlice<Path>, _ frame: inout SharedFrame?) {
        slowReaders.conflate(view, written)
        view.lastChange = outbox.batchNumber
        let encoded = shared(change)
        for (style, audience) in view.audiences {
            if case .events(_, _, .some) = style, !pacing.maySendNow(view, style) { continue }
            send(encoded, style, to: audience, of: view, &frame)
        }
    }

    /// Sends a change to the observers of a view in one style.
    func send(_ change: EncodedChange, _ style: ObserverStyle, to audience: Audience, of view: View, _ shared: inout SharedFrame?) {
        view.lastChange = outbox.batchNumber
        let isShared = shared != nil && style == .patches(tag: nil)
        if isLarge(change, style) {
            let event = isShared ? shared?.later : nil
            let sent = event ?? DeferredBytes(leastBytes)
            sendLater(sent, view.observation(style), to: audience)
            if event == nil { encode(sent, change.large, style) }
            if isShared { shared?.later = sent }
            return
        }
        let frame = (isShared ? shared?.bytes : nil) ?? change.frame(for: style)
        if isShared { shared?.bytes = frame }
        outbox.send(frame, to: audience)
        view.countEvents(frame.count &* audience.count, in: context.meter.eventBytes)
    }

    /// Sends a change to one client.
    /// - Parameter suspends: whether the client's value observers wait until it has read a large change.
    func send(_ change: EncodedChange, _ style: ObserverStyle, to client: Client, suspends: Bool) {
        guard isLarge(change, style) else { return outbox.send(change.frame(for: style), to: client) }
        let event = DeferredBytes(leastBytes)
        outbox.send(event, to: client)
        slowReaders.holdUntilReceived(client, suspends: suspends)
        encode(event, change.large, style, unless: { client.isGone.load(ordering: .relaxed) })
    }

    /// Once the batch's output limit is reached, every change is deferred without measuring.
    private var isFull: Bool { outbox.batchBytes > limits.outputBytes }
    private func isLarge(_ change: EncodedChange, _ style: ObserverStyle) -> Bool { isFull || change.isLarge(for: style) }
    /// The minimum size of a deferred frame.
    private var leastBytes: Int { isFull ? 0 : limits.inlineBytes }

    private func sendLater(_ event: DeferredBytes, _ observation: Observation, to audience: Audience) {
        for lane in audience.lanes.indices {
            // A client may have been suspended by this commit's change in another style.
            let (receivers, missing) = observation.mayConflate
                ? audience.lanes[lane].divided { $0.lag?.isSuspended != true } : (audience.lanes[lane], [])
            for client in missing { slowReaders.miss(observation, of: client) }
            if receivers.isEmpty { continue }
            outbox.send(event, to: receivers, lane: lane)
            for client in receivers { slowReaders.holdUntilReceived(client, suspends: observation.style.isValue) }
        }
    }

    private func encode(
        _ event: DeferredBytes, _ change: LargeChange, _ style: ObserverStyle, unless isGone: @escaping @Sendable () -> Bool = { false }
    ) {
        encodings.add(event, isHeavy: { change.isLarger(than: $0, for: style) }) { _ in
            isGone() ? .done(DeferredBytes.Outcome()) : change.prepare(style)
        }
    }
}

/// A change, and what its receivers share of it: its size, and its encoded parts.
final class EncodedChange {
    private let change: ViewChange
    private let format: any WireFormat
    private let readBytes: Int
    private var size: ChangeSize
    private var parts: (any ChangeParts)?
    private(set) lazy var large = LargeChange(change, format, limit: readBytes)

    init(_ change: consuming ViewChange, _ format: any WireFormat, inlineBytes: Int, readBytes: Int) {
        self.change = change
        self.format = format
        self.readBytes = readBytes
        size = ChangeSize(bound: inlineBytes)
    }

    func isLarge(for style: ObserverStyle) -> Bool { size.isLarge(change, for: style) }
    func frame(for style: ObserverStyle) -> [UInt8] { format.change(change, for: style, sharing: &parts) }
}

extension [Client] {
    fileprivate func divided(_ isFirst: (Client) -> Bool) -> (first: [Client], second: [Client]) {
        allSatisfy(isFirst) ? (self, []) : (filter(isFirst), filter { !isFirst($0) })
    }
}
