import DequeModule
import Journal
import JSONTree

/// Replies to other hubs: refusals, and outcomes without a commit. The log reports all other outcomes.
extension RemoteRequests {
    /// Takes replies that are durable, or need no commit. Called for the lane of other hubs.
    func deliver(_ deliveries: [Delivery]) {
        var replies: [UInt64: [PeerReply]] = [:]
        for delivery in deliveries {
            switch delivery {
            case .reply(let client, let answer):
                guard let client = client as? RemoteClient, let pending = client.waiting.popFirst(), let number = pending.number else {
                    continue
                }
                client.remote?.forget(Int64(bitPattern: number))
                peers[client.hub]?.bytes -= pending.bytes
                guard let reply = reply(answer, number) else { continue }
                peers[client.hub]?.open[number] = .answered(reply)
                if reply.outcome == .done, pending.commits, client.hub != link.hub { continue }
                replies[client.hub, default: []].append(reply)
            case .marked(let client, let number):
                guard let client = client as? RemoteClient else { continue }
                let reply = PeerReply(number: UInt64(bitPattern: Int64(number)), outcome: .done, sequence: durability.durable.sequence)
                peers[client.hub]?.open[reply.number] = .answered(reply)
                replies[client.hub, default: []].append(reply)
            default: break
            }
        }
        for (hub, replies) in replies { reply(replies, to: hub) }
        _ = held.become(peers.values.reduce(0) { $0 + $1.bytes })
    }

    /// Nil while the outcome is open: the log reports it, or the next writer does.
    private func reply(_ answer: Reply, _ number: UInt64) -> PeerReply? {
        let durable = durability.durable.sequence
        switch answer {
        case .failed(let failure):
            guard failure.code == .unavailable, !isCertain(failure) else {
                return PeerReply(number: number, outcome: .failed(failure), sequence: durable)
            }
            return nil
        case .written(let sequence), .pushed(_, let sequence): return PeerReply(number: number, outcome: .done, sequence: sequence)
        case .exchanged(let outcome) where outcome.isStale: return PeerReply(number: number, outcome: .stale, sequence: durable)
        case .exchanged(let outcome): return PeerReply(number: number, outcome: .done, sequence: outcome.sequence)
        default: return PeerReply(number: number, outcome: .done, sequence: durable)
        }
    }

    /// True if the request is stored nowhere, and the follower should not repeat it at another hub.
    private func isCertain(_ failure: Failure) -> Bool {
        ![CommitRefusal.outcomeUnknown, .conflict, .following, .cutOff, .stopping].contains { $0.text == failure.message }
    }

    func reply(_ replies: [PeerReply], to hub: UInt64) {
        if replies.isEmpty { return }
        var (part, bytes) = ([PeerReply](), 0)
        for reply in replies {
            var encoded: [UInt8] = []
            reply.encode(into: &encoded)
            if bytes + encoded.count > link.messageBytes - PeerMessage.headerBytes, !part.isEmpty {
                post(PeerMessage.replies(term: term, part).encoded, hub)
                (part, bytes) = ([], 0)
            }
            part.append(reply)
            bytes += encoded.count
        }
        post(PeerMessage.replies(term: term, part).encoded, hub)
    }
}
