import HubEngine
import JSONTree
import LiveQueries
import WireProtocols

/// The observe protocol's side of the format (docs/observe-protocol.md).
extension HubFormat {
    func observe(_ reply: Reply, _ id: Int64) -> [UInt8] {
        switch reply {
        case .exchanged(let outcome) where outcome.isStale:
            ObserveReply.failed(id, .stale, value: outcome.content.isLarger(than: Self.staleBytes) ? nil : outcome.content).frame
        case .failed(let failure): ObserveReply.failed(id, ObserveFault(failure)).frame
        default: ObserveReply.ok(id, Self.success(reply)).frame
        }
    }

    /// The content of an `ok` reply.
    private static func success(_ reply: Reply) -> ObserveSuccess {
        switch reply {
        case .done, .failed: return ObserveSuccess()
        case .observing(let sequence, let lacksIndex): return ObserveSuccess(seq: Int64(sequence), lacksIndex: lacksIndex)
        case .observed(let sequence, let lacksIndex, let epoch, let isReset):
            return ObserveSuccess(seq: Int64(sequence), lacksIndex: lacksIndex, epoch: epoch, isReset: isReset)
        case .written(let sequence): return ObserveSuccess(seq: Int64(sequence))
        case .value(let node): return ObserveSuccess(value: node)
        case .selected(let shown, let query):
            // Its order is sent separately: a JSON object has none.
            let ordered = query.inOrder(shown)
            let distances = query.near == nil ? nil : ordered.compactMap(\.distance)
            return ObserveSuccess(value: shown, keys: ordered.map(\.key), distances: distances)
        case .counted(let count): return ObserveSuccess(count: Int64(count))
        case .explained(let reply, let explanation):
            var success = success(reply)
            success.explain = explanation.node
            return success
        case .pushed(let key, let sequence): return ObserveSuccess(seq: Int64(sequence), key: key)
        case .identified(let identity): return ObserveSuccess(uid: identity.uid)
        case .exchanged(let outcome): return ObserveSuccess(seq: Int64(outcome.sequence))
        }
    }

    /// An observer's first events: each child as added, in key order or the query's order; then the value; then `ready`.
    func observeInitial(_ value: Node, _ query: Query?, _ id: Int64, _ kinds: EventKinds, _ sequence: UInt64) -> [UInt8] {
        var frames: [UInt8] = []
        // A client that resumes after a disconnect needs to know which event is the last of the set.
        var left = (kinds.contains(.added) ? value.childCount : 0) + [EventKinds.value, .count, .ready].count { kinds.contains($0) }
        func append(_ event: ObserveEvent) {
            left -= 1
            frames += ObservePush(event, seq: Int64(sequence)).frame(sub: id, isFollowed: left > 0 && kinds.contains(.resumable))
        }
        if kinds.contains(.added) {
            var previous: Key?
            let isByPosition = query?.isByPosition ?? false
            func added(_ key: Key, _ child: Node, _ distance: Double? = nil) {
                append(.added(key: key, value: child, prev: isByPosition ? .notSent : ObservePrevious(previous), distance: distance))
                previous = key
            }
            if let query {
                for (key, child, distance) in query.inOrder(value) { added(key, child, distance) }
            } else {
                for (key, child) in value.children { added(key, child) }
            }
        }
        if kinds.contains(.value) { append(.value(value)) }
        if kinds.contains(.count) { append(.count(value.childCount)) }
        if kinds.contains(.ready) { append(.ready) }
        return frames
    }

    func observeInitial(count: Int, _ id: Int64, _ kinds: EventKinds, _ sequence: UInt64) -> [UInt8] {
        let events: [ObserveEvent] = kinds.contains(.ready) ? [.count(count), .ready] : [.count(count)]
        return events.enumerated().flatMap { at, event in
            ObservePush(event, seq: Int64(sequence)).frame(sub: id, isFollowed: at < events.count - 1 && kinds.contains(.resumable))
        }
    }

    /// The events that all subscriptions of a place share: those of the children, then that of the value, then that of their number.
    func observed(_ change: ViewChange) -> ObserveFrames {
        var events: [ObserveEvent] = change.events.map { event in
            let previous = event.isByPosition ? ObservePrevious.notSent : ObservePrevious(event.previous)
            return switch event.kind {
            case .added: .added(key: event.key, value: event.value, prev: previous, distance: event.distance)
            case .removed:
                .removed(key: event.key, value: event.value, distance: event.distance,
                    why: event.why.map { $0 == .left ? .left : .deleted })
            case .moved: .moved(key: event.key, prev: previous, distance: event.distance)
            default: .changed(key: event.key, value: event.value, prev: previous, distance: event.distance)
            }
        }
        events.append(.value(change.new))
        if let count = change.count { events.append(.count(count)) }
        return ObserveFrames(events, seq: Int64(change.sequence))
    }

    func observe(_ change: ViewChange, _ shared: ObserveFrames, _ id: Int64, _ kinds: EventKinds) -> [UInt8] {
        var frames: [UInt8] = []
        let sendsValue = kinds.contains(.value) && !change.isNothing
        let sendsCount = kinds.contains(.count) && change.count != nil
        // A client that resumes after a disconnect needs to know which event is the last of the set.
        var left = Int.min
        if kinds.contains(.resumable) {
            left = change.events.count { kinds.contains($0.kind) } + (sendsValue ? 1 : 0) + (sendsCount ? 1 : 0)
        }
        func append(_ index: Int) {
            left &-= 1
            shared.append(index, sub: id, isFollowed: left > 0 && kinds.contains(.resumable), to: &frames)
        }
        for (index, event) in change.events.enumerated() where kinds.contains(event.kind) { append(index) }
        if sendsValue { append(change.events.count) }
        if sendsCount { append(change.events.count + 1) }
        return frames
    }

    /// Bytes up to which the refusal of a transaction includes the current value, because it is encoded on the database queue.
    static let staleBytes = 64 << 10
}

extension ObserveFault {
    init(_ failure: Failure) {
        let (code, member): (ObserveCode, String?) =
            switch failure.code {
            case .permissionDenied: (.permissionDenied, nil)
            case .dataStale: (.stale, nil)
            case .invalidToken, .expiredToken: (.invalidToken, "token")
            case .tooBig: (.tooBig, nil)
            case .unavailable: (.unavailable, nil)
            case .overBudget: (.overBudget, nil)
            case .failure: (.badRequest, nil)
            case .missingIndex: (.missingIndex, "query.orderBy")
            case .unknownObserver: (.unknownSub, "sub")
            case .duplicateObserver: (.duplicateID, "id")
            case .tooMany: (.tooMany, nil)
            }
        self.init(code, failure.message, member: member, messages: failure.ruleMessages)
        retryAfterMs = failure.retryAfterMs
    }

    static let stale = ObserveFault(.stale, "The place has another value.")
}

extension Identity {
    /// The user's id in the reply to `auth`; nil without a string `uid`.
    var uid: String? { if case .string(let text) = auth.child("uid") { text.string } else { nil } }
}
