import Dispatch
import JSONTree
import Synchronization

/// What is large is encoded off the queue, from the immutable tree. Its place in the order of deliveries is taken at once.
///
/// ```
/// queue:     … answer, event, [ later ], answer …  ─────────────────────► lane: what follows for these clients waits
/// line:                           └► measure, hash, encode ─► filled ──────┘
/// ```
/// The client has a probe behind it: it asks and is told no more until it has taken that.
extension Core {
    /// Whether a value is encoded off the queue. O(`inlineBytes`)
    func isLarge(_ node: Node) -> Bool { node.isLarger(than: limits.inlineBytes) }

    private func deferred() -> DeferredBytes { DeferredBytes(limits.inlineBytes) }

    // MARK: Answers

    /// - Parameter hold: let go when the value is encoded, or dropped.
    func answerLater(_ node: Node, _ item: Database.Item, holding hold: MemoryLease?, leavesEarly: Bool) {
        let (client, token, limit, format) = (item.client, item.token, limits.readBytes, format)
        let answer = deferred()
        if leavesEarly { early.send(answer, to: client) } else { output.send(answer, to: client) }
        holdWhileTaking(client, suspends: false, probe: leavesEarly ? \.early : \.output)
        encodings.add(answer, isHeavy: { node.isLarger(than: $0) }) { _ in
            if client.isGone.load(ordering: .relaxed) { return .done(DeferredBytes.Outcome()) }
            guard let size = node.encodedSize(upTo: limit) else {
                return .done(DeferredBytes.Outcome(format.reply(.failed(.readTooBig), to: token, dialect: client.dialect)))
            }
            return .make(reserving: size * encodingFactor) {
                withExtendedLifetime(hold) { DeferredBytes.Outcome(format.reply(.value(node), to: token, dialect: client.dialect)) }
            }
        }
    }

    // MARK: First contents

    /// An observer's first content and the answer to its request, in one. The observer exists already; it is removed again if the
    /// content is too large.
    /// - Parameter hold: let go when the value is encoded, or dropped.
    func beginLater(
        _ observation: Observation, _ node: Node, _ hash: String, _ reply: Reply, _ item: Database.Item, holding hold: MemoryLease?
    ) {
        let (client, style, limit, format, sequence) = (item.client, observation.style, limits.readBytes, format, sequence)
        let first = deferred()
        output.send(first, to: client)
        holdWhileTaking(client, suspends: style.isValue, probe: \.output)
        let finished = { @Sendable (reply: Reply, content: [UInt8]) -> DeferredBytes.Outcome in
            let answer = format.reply(reply, to: item.token, dialect: client.dialect)
            return switch style {
            // Data first: the ok is what makes the client's view complete (contract §2.5 rule 2).
            case .patches: DeferredBytes.Outcome(content + answer)
            case .events: DeferredBytes.Outcome(answer + content)
            case .stream: DeferredBytes.Outcome(content, reply: reply)
            }
        }
        let refuse = { @Sendable [self] (first: DeferredBytes) in
            queue.async { [self] in
                withdraw(observation, of: client, first)
                first.fill(finished(.failed(.readTooBig), []))
            }
        }
        encodings.add(first, isHeavy: { node.isLarger(than: $0) }) { first in
            if client.isGone.load(ordering: .relaxed) { return .done(DeferredBytes.Outcome()) }
            // A client that holds the same already is not sent it again.
            if case .patches = style, !hash.isEmpty, node.hash == hash { return .done(finished(reply, [])) }
            guard let size = node.encodedSize(upTo: limit) else {
                refuse(first)
                return .elsewhere
            }
            return .make(reserving: (size + node.childCount * Self.bytesAroundChild) * encodingFactor) {
                let content = withExtendedLifetime(hold) { format.initial(node, at: observation.path, style: style, sequence: sequence) }
                // Events of many small children are larger than these.
                if content.count > limit, style.isOfChildren {
                    refuse(first)
                    return nil
                }
                return finished(reply, content)
            }
        }
    }

    /// What an event has beside its child, about.
    private static let bytesAroundChild = 80

    private func withdraw(_ observation: Observation, of client: Client, _ first: DeferredBytes) {
        dispatchPrecondition(condition: .onQueue(queue))
        // Of a batch that was given up: the observer has been made anew, with another first content.
        if first.isAbandoned.load(ordering: .relaxed) { return }
        remove(observation, of: client)
        note(.tooLarge(client, observation))
        finishBatch()
    }

    // MARK: Changes

    /// Tells the observers of a view in one style of a large change.
    /// - Parameter shared: the same frames, if they are being made for others already.
    /// - Returns: what they are told.
    func tellLater(_ change: LargeChange, _ view: View, _ style: ObserverStyle, _ audience: Audience, shared: DeferredBytes?) -> DeferredBytes {
        let event = shared ?? deferred()
        let observation = Observation(path: view.path, query: view.query, style: style)
        for lane in audience.lanes.indices {
            // Suspended meanwhile: by what it is told of the same commit in another style.
            let (told, missing) = observation.mayConflate ? audience.lanes[lane].divided { $0.lag?.isSuspended != true } : (audience.lanes[lane], [])
            for client in missing {
                client.lag?.mark(observation, .whole, limit: limits.stalePlaces)
                counters.conflated += 1
            }
            if told.isEmpty { continue }
            output.send(event, to: told, lane: lane)
            for client in told { holdWhileTaking(client, suspends: style.isValue, probe: \.output) }
        }
        if shared == nil { encodings.add(event, isHeavy: { change.isLarger(than: $0, for: style) }) { _ in change.prepare(style) } }
        return event
    }

    /// Tells one client of a large change that it had missed.
    func tellLater(_ change: LargeChange, _ style: ObserverStyle, to client: Client) {
        let event = deferred()
        output.send(event, to: client)
        holdWhileTaking(client, suspends: true, probe: \.output)
        encodings.add(event, isHeavy: { change.isLarger(than: $0, for: style) }) { _ in
            client.isGone.load(ordering: .relaxed) ? .done(DeferredBytes.Outcome()) : change.prepare(style)
        }
    }

    /// Something large is on its way to the client: its requests wait until it has taken that. So do its value observers if they
    /// may be told a newer state for older ones, or if it was on its way to taking something large already.
    private func holdWhileTaking(_ client: Client, suspends: Bool, probe buffer: ReferenceWritableKeyPath<Core, OutputBuffer>) {
        if client.hasEnded || client.isGone.load(ordering: .relaxed) { return }
        let lag = client.lag ?? Lag()
        client.lag = lag
        let wasTaking = lag.isTakingLarge
        lag.isTakingLarge = true
        if !wasTaking { self[keyPath: buffer].probe(client) }
        if suspends || wasTaking { suspend(client) }
    }
}

extension ObserverStyle {
    /// Whether an observer is told values only, each of which stands for all before it.
    fileprivate var isValue: Bool { if case .events(_, .value) = self { true } else { false } }
    /// Whether an observer is told of children one by one.
    fileprivate var isOfChildren: Bool { if case .events(_, let kinds) = self { !kinds.isDisjoint(with: .children) } else { false } }
}

extension [Client] {
    fileprivate func divided(_ isFirst: (Client) -> Bool) -> (first: [Client], second: [Client]) {
        allSatisfy(isFirst) ? (self, []) : (filter(isFirst), filter { !isFirst($0) })
    }
}
