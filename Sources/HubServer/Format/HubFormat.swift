import HubEngine
import JSONTree
import LiveQueries
import WireProtocols

/// Encodes the engine's output in each client's protocol, framed and ready to send.
struct HubFormat: WireFormat {
    func reply(_ reply: Reply, to token: Int64, dialect: Dialect) -> [UInt8] {
        switch dialect {
        case .realtime: realtime(reply, token)
        case .observe: observe(reply, token)
        // REST and the hub itself get replies as values (`Client.replied`).
        case .rest, .system: []
        }
    }

    func value(_ node: NodeCursor, to token: Int64) -> [UInt8] { RealtimeReply.ok(token, value: node).realtimeFrames }

    func initial(_ value: Node, at path: Path, query: Query?, style: ObserverStyle, sequence: UInt64) -> [UInt8] {
        switch style {
        case .patches(let tag): RealtimePush.data(path: path, value: value).frames(tag: tag)
        case .events(let id, let kinds, _): observeInitial(value, query, id, kinds, sequence)
        case .stream(let form): streamInitial(value, form)
        case .countStream: streamed(value.childCount)
        }
    }

    /// The realtime push and the observe events of one change.
    private final class Parts: ChangeParts {
        var push: RealtimePush?
        var observed: ObserveFrames?

        /// Creates the parts on first use; all parts of a change come from this format.
        static func of(_ parts: inout (any ChangeParts)?) -> Parts {
            if let parts { return unsafeDowncast(parts, to: Parts.self) }
            let made = Parts()
            parts = made
            return made
        }
    }

    func initial(count: Int, style: ObserverStyle, sequence: UInt64) -> [UInt8] {
        switch style {
        case .events(let id, let kinds, _): observeInitial(count: count, id, kinds, sequence)
        case .countStream: streamed(count)
        case .patches, .stream: []
        }
    }

    func ready(_ style: ObserverStyle, sequence: UInt64) -> [UInt8] {
        guard case .events(let id, let kinds, _) = style, kinds.contains(.ready) else { return [] }
        return ObservePush(.ready, seq: Int64(sequence)).frame(sub: id)
    }

    func change(_ change: ViewChange, for style: ObserverStyle, sharing parts: inout (any ChangeParts)?) -> [UInt8] {
        switch style {
        // Not shared: most views have only this style, and no other style uses it besides a tag.
        case .patches(nil): return realtime(change).frames(tag: nil)
        case .patches(let tag):
            let parts = Parts.of(&parts)
            let push = parts.push ?? realtime(change)
            parts.push = push
            return push.frames(tag: tag)
        case .events(let id, let kinds, _):
            let parts = Parts.of(&parts)
            let observed = parts.observed ?? self.observed(change)
            parts.observed = observed
            return observe(change, observed, id, kinds)
        case .stream(let form): return stream(change, form)
        case .countStream: return change.count.map(streamed) ?? []
        }
    }

    func written(_ value: Node, at path: Path) -> [UInt8] { RealtimePush.data(path: path, value: value).frames(tag: nil) }

    func ended(_ path: Path, query: Query?, style: ObserverStyle, _ failure: Failure) -> [UInt8] {
        switch style {
        case .patches: RealtimeFraming.frames(for: RealtimePush.cancelled(path: path, query: query?.plain))
        case .events(let id, _, _): ObserveReply.ended(sub: id, ObserveFault(failure)).frame
        case .stream, .countStream: EventStreamEvent.cancel
        }
    }

    /// Notifies a client that its credential was revoked (contract §8.1). Its session ends after this message.
    func revoked(_ failure: Failure, dialect: Dialect) -> [UInt8] {
        switch dialect {
        case .realtime: RealtimeFraming.frames(for: RealtimePush.authRevoked(RealtimeRefusal(failure)))
        case .observe: ObserveReply.failed(nil, ObserveFault(failure)).frame
        case .rest: EventStreamEvent.authRevoked
        case .system: []
        }
    }

    /// Notifies a client that the hub closes its connection for good; empty where the close frame says it.
    func ended(_ text: String, dialect: Dialect) -> [UInt8] {
        switch dialect {
        case .realtime: RealtimeFraming.frames(for: RealtimePush.shutdown(text))
        case .rest: EventStreamEvent.cancel
        case .observe, .system: []
        }
    }

    // MARK: Realtime v5

    private func realtime(_ reply: Reply, _ number: Int64) -> [UInt8] {
        switch reply {
        case .done, .written, .pushed: RealtimeReply.ok(number).realtimeFrames
        case .observing(_, let lacksIndex), .observed(_, let lacksIndex, _, _):
            RealtimeReply.okListen(number, lacksIndex: lacksIndex).realtimeFrames
        case .value(let node): RealtimeReply.ok(number, value: node).realtimeFrames
        case .identified(let identity): RealtimeReply.okAuth(number, auth: identity.auth, expires: identity.expires).realtimeFrames
        case .exchanged, .counted, .selected, .explained: []
        case .failed(let failure): RealtimeReply.refused(number, RealtimeRefusal(failure)).realtimeFrames
        }
    }

    /// One push for one commit: the place itself, one place below it, or several of them merged (contract §3.5).
    private func realtime(_ change: ViewChange) -> RealtimePush {
        switch change.patches.count {
        case 0: .data(path: change.path, value: change.new)
        case 1: .data(path: change.patches[0].path, value: change.patches[0].value)
        default:
            .merge(path: change.path, change.patches.map { (path: $0.path.dropping(change.path.depth), value: $0.value) })
        }
    }
}

extension RealtimeRefusal {
    init(_ failure: Failure) {
        // `unavailable` is the SDKs' closest status for a retryable failure. No SDK retries by itself: the write fails with that code.
        let status = failure.code == .overBudget ? .unavailable : RealtimeStatus(rawValue: failure.code.rawValue) ?? .failure
        self.init(status, failure.message)
    }
}
