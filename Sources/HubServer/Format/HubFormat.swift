import HubEngine
import JSONTree
import WireProtocols

/// Encodes the engine's output in each client's protocol, framed and ready to send.
struct HubFormat: WireFormat {
    func reply(_ reply: Reply, to token: Int64, dialect: Dialect) -> [UInt8] {
        switch dialect {
        case .realtime: RealtimeFraming.frames(for: realtime(reply, token))
        case .observe: observe(reply, token)
        // REST and the hub itself get replies as values (`Client.replied`).
        case .rest, .system: []
        }
    }

    func initial(_ value: Node, at path: Path, style: ObserverStyle, sequence: UInt64) -> [UInt8] {
        switch style {
        case .patches(let tag): RealtimePush.data(path: path, value: value).frames(tag: tag)
        case .events(let id, let kinds): observeInitial(value, id, kinds, sequence)
        case .stream(let exports): streamInitial(value, exports: exports)
        }
    }

    func change(_ change: ViewChange) -> (ObserverStyle) -> [UInt8] {
        var push: RealtimePush?
        var observed: ObserveFrames?
        return { style in
            switch style {
            case .patches(let tag):
                let known = push ?? realtime(change)
                push = known
                return known.frames(tag: tag)
            case .events(let id, let kinds):
                let known = observed ?? self.observed(change)
                observed = known
                return observe(change, known, id, kinds)
            case .stream(let exports): return stream(change, exports: exports)
            }
        }
    }

    func cancelled(_ path: Path, query: TreeQuery?, style: ObserverStyle) -> [UInt8] {
        switch style {
        case .patches: RealtimeFraming.frames(for: RealtimePush.cancelled(path: path, query: query))
        case .events(let id, _): observeCancelled(id)
        case .stream: EventStreamEvent.cancel
        }
    }

    /// Tells a client that its credential was revoked (contract §8.1); its session ends behind this.
    func revoked(_ failure: Failure, dialect: Dialect) -> [UInt8] {
        switch dialect {
        case .realtime: RealtimeFraming.frames(for: RealtimePush.authRevoked(RealtimeRefusal(failure)))
        case .observe: WebSocketFrame.text(ObserveReply.failed(nil, ObserveFault(failure)))
        case .rest: EventStreamEvent.authRevoked
        case .system: []
        }
    }

    // MARK: Realtime v5

    private func realtime(_ reply: Reply, _ number: Int64) -> [UInt8] {
        switch reply {
        case .done, .written, .pushed: RealtimeReply.ok(number)
        case .observing(_, let lacksIndex): RealtimeReply.okListen(number, lacksIndex: lacksIndex)
        case .value(let node): RealtimeReply.ok(number, value: node)
        case .identified(let identity): RealtimeReply.okAuth(number, auth: identity.auth, expires: identity.expires)
        case .exchanged: []
        case .failed(let failure): RealtimeReply.refused(number, RealtimeRefusal(failure))
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
    init(_ failure: Failure) { self.init(RealtimeStatus(rawValue: failure.code.rawValue) ?? .failure, failure.message) }
}
