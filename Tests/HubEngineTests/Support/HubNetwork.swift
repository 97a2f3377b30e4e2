import Foundation
import Journal
import JSONTree
import SecurityRules
import Synchronization
import TestSupport

@testable import HubEngine

/// Hubs in one process over one journal. The test decides which of their messages are lost or delayed.
final class HubNetwork: @unchecked Sendable {
    // Sendable: messages in transit are guarded by the wire; only the test's thread changes hubs.

    struct PeerFrame: Sendable {
        let bytes: [UInt8]
        let from: UInt64
        let to: UInt64
    }

    /// Message faults, each in percent.
    struct NetworkFaults: Sendable {
        var loses = 0
        var doubles = 0
        var delays = 0
    }

    /// The messages between hubs. It outlives the net as long as a hub has work to do.
    fileprivate final class Wire: Sendable {
        struct State {
            var waiting: [PeerFrame] = []
            var random = SeededRandom(1)
            var faults = NetworkFaults()
            var writer: UInt64?
            var known: Set<UInt64> = []
            var dead: Set<UInt64> = []
            /// They still follow the log, but none of their messages leaves them.
            var killed: Set<UInt64> = []
            var sent = 0
            var held: [PeerFrame] = []
            var holds: (@Sendable (PeerFrame) -> Bool)?
        }

        let state: Mutex<State>

        init(_ seed: UInt64, _ faults: NetworkFaults) { state = Mutex(State(random: SeededRandom(seed), faults: faults)) }

        func writer(for hub: UInt64) -> HubWriter {
            state.withLock { state in
                guard let writer = state.writer else { return .unknown }
                return writer == hub ? .here : .hub(writer)
            }
        }

        func isAlive(_ hub: UInt64) -> Bool { state.withLock { $0.known.contains(hub) && !$0.dead.contains(hub) } }

        func send(_ frame: PeerFrame) {
            state.withLock { state in
                if state.killed.contains(frame.from) { return }
                if let holds = state.holds, holds(frame) { return state.held.append(frame) }
                state.sent += 1
                func roll(_ percent: Int) -> Bool { percent > 0 && Int.random(in: 0..<100, using: &state.random) < percent }
                if roll(state.faults.loses) { return }
                state.waiting.append(frame)
                if roll(state.faults.doubles) { state.waiting.append(frame) }
                if roll(state.faults.delays), state.waiting.count > 1 {
                    state.waiting.swapAt(state.waiting.count - 1, Int.random(in: 0..<state.waiting.count, using: &state.random))
                }
            }
        }
    }

    private let wire: Wire
    let journal: MemoryJournal
    private(set) var hubs: [UInt64: Hub] = [:]
    let rules: RuleSet
    let limits: EngineLimits
    private var nextID: UInt64 = 0xA000_0000_0000_0001
    private var epoch: UInt64 = 0

    init(rules: RuleSet = .allowAll, limits: EngineLimits = EngineLimits(), seed: UInt64 = 1, faults: NetworkFaults = NetworkFaults()) {
        journal = MemoryJournal()
        (self.rules, self.limits) = (rules, limits)
        wire = Wire(seed, faults)
    }

    final class Hub: HubLink, @unchecked Sendable {
        // Sendable: `receiver` is set once; the rest is constant.
        let hub: UInt64
        /// Weak, and for the test's thread: a hub may still send after the end of the test.
        private weak let net: HubNetwork?
        private let wire: Wire
        fileprivate let receiver = Mutex<(@Sendable (HubEvent) -> Void)?>(nil)
        let messageBytes: Int
        var harness: EngineHarness!
        /// For a hub whose role changes between writer and follower.
        fileprivate var writerRole: WriterRole?
        let log: KillableJournal

        fileprivate init(_ id: UInt64, _ net: HubNetwork, _ log: KillableJournal, messageBytes: Int) {
            (hub, self.net, wire, self.log, self.messageBytes) = (id, net, net.wire, log, messageBytes)
        }

        /// How often this hub has looked up the writer: once per check of its send queue.
        let writerLookups = Atomic(0)

        var writer: HubWriter {
            writerLookups.add(1, ordering: .relaxed)
            return wire.writer(for: hub)
        }

        func isAlive(_ hub: UInt64) -> Bool { wire.isAlive(hub) }
        func send(_ message: [UInt8], to hub: UInt64) { wire.send(PeerFrame(bytes: message, from: self.hub, to: hub)) }
        func listen(_ receive: @escaping @Sendable (HubEvent) -> Void) { receiver.withLock { $0 = receive } }
        func deliver(_ event: HubEvent) { receiver.withLock { $0 }?(event) }

        func client(lane: Int = 0, dialect: Dialect = .realtime, _ identity: Identity = .anonymous) -> Client {
            Client(lane: lane, dialect: dialect, identity: identity)
        }

        func ask(_ client: Client, _ requests: Request..., as token: Int64 = 0) -> [String] {
            for (i, request) in requests.enumerated() { harness.database.submit(request, from: client, token: token + Int64(i)) }
            net?.settle()
            return harness.linesSoFar(client)
        }

        var root: Node {
            let root = Mutex(Node.null)
            harness.database.snapshot { tree, _, _ in root.withLock { $0 = tree } }
            harness.database.queue.sync {}
            return root.withLock { $0 }
        }

        var pending: [PendingSession] {
            let found = Mutex<[PendingSession]>([])
            harness.database.snapshot { _, _, pending in found.withLock { $0 = pending } }
            harness.database.queue.sync {}
            return found.withLock { $0 }
        }
    }

    // MARK: Hubs

    private func add(messageBytes: Int) -> Hub {
        let hub = Hub(nextID, self, KillableJournal(journal), messageBytes: messageBytes)
        nextID += 1
        hubs[hub.hub] = hub
        wire.state.withLock { _ = $0.known.insert(hub.hub) }
        return hub
    }

    /// The journal's content.
    private var stored: (root: Node, sequence: UInt64, pending: PendingSessions, beside: StateBesideTree) {
        let found = Mutex<(Node, UInt64, PendingSessions, StateBesideTree)>((.null, 0, PendingSessions(), StateBesideTree()))
        journal.tail(from: 0) { event in
            guard case .batch(let batch) = event else { return }
            found.withLock { found in
                for operation in batch.operations {
                    found.0.apply(operation)
                    if case .pending(let change) = operation { found.2.apply(change) }
                    found.3.apply(operation, in: found.0)
                }
                found.1 = batch.sequence
            }
        }.cancel()
        return found.withLock { $0 }
    }

    /// Adds a new writer; hubs no longer send requests to the previous one.
    @discardableResult
    func addWriter(messageBytes: Int = 1 << 16) -> Hub {
        let hub = add(messageBytes: messageBytes)
        epoch += 1
        let stored = stored
        hub.harness = EngineHarness(
            rules: rules, root: stored.root, beside: stored.beside, pending: stored.pending.sessions, sequence: stored.sequence, log: hub.log, epoch: epoch,
            limits: limits, link: hub)
        hub.harness.settle()
        choose(hub)
        return hub
    }

    func addFollower(messageBytes: Int = 1 << 16) -> Hub {
        let hub = add(messageBytes: messageBytes)
        hub.harness = EngineHarness(rules: rules, log: hub.log, limits: limits, follows: true, link: hub)
        settle()
        return hub
    }

    /// Adds a hub that follows until it is elected.
    func addCandidate(messageBytes: Int = 1 << 16) -> Hub {
        let hub = add(messageBytes: messageBytes)
        let writerRole = WriterRole(writer: { nil }) { _, _ in }
        hub.writerRole = writerRole
        hub.harness = EngineHarness(
            rules: rules, log: hub.log, epoch: 1, limits: limits, follows: true, writerRole: writerRole, link: hub)
        settle()
        return hub
    }

    /// Makes another candidate the writer; the previous one steps down.
    func elect(_ hub: Hub) {
        let before = wire.state.withLock { $0.writer }.flatMap { hubs[$0] }
        if let before, before !== hub { become(.following, before) }
        become(.writing, hub)
        choose(hub)
    }

    /// Makes another candidate the writer without the previous one noticing.
    func supersede(by hub: Hub) { become(.writing, hub) }

    /// A claim that finds unapplied commits is retried by the clock.
    private func become(_ role: WriterRole.Role, _ hub: Hub) {
        hub.writerRole?.request(role == .writing ? .write : .follow)
        for _ in 0..<500 where hub.writerRole?.role != role { advance(ms: 20, step: 20) }
    }

    func choose(_ hub: Hub?) {
        wire.state.withLock { $0.writer = hub?.hub }
        for other in hubs.values { other.deliver(.writerChanged) }
        settle()
    }

    /// Like kill -9: the hub sends and writes nothing any more.
    func kill(_ hub: Hub) {
        hub.log.kill()
        wire.state.withLock { state in
            state.dead.insert(hub.hub)
            state.killed.insert(hub.hub)
            if state.writer == hub.hub { state.writer = nil }
            state.waiting.removeAll { $0.from == hub.hub || $0.to == hub.hub }
        }
        hubs[hub.hub] = nil
        for other in hubs.values { other.deliver(.writerChanged) }
    }

    /// Sets whether other hubs receive its messages.
    func lose(_ hub: Hub, _ isLost: Bool) { wire.state.withLock { if isLost { $0.dead.insert(hub.hub) } else { $0.dead.remove(hub.hub) } } }

    // MARK: Messages

    var sent: Int { wire.state.withLock { $0.sent } }
    var faults: NetworkFaults {
        get { wire.state.withLock { $0.faults } }
        set { wire.state.withLock { $0.faults = newValue } }
    }

    /// Holds back messages that match; nil delivers the held ones and holds no more.
    func hold(_ which: (@Sendable (PeerFrame) -> Bool)?) {
        wire.state.withLock { state in
            state.holds = which
            if which == nil {
                state.waiting += state.held
                state.held = []
            }
        }
    }

    /// Loses the held messages.
    func drop() { wire.state.withLock { $0.held = [] } }
    var held: [PeerFrame] { wire.state.withLock { $0.held } }
    func deliver(_ frame: PeerFrame) { hubs[frame.to]?.deliver(.message(frame.bytes, from: frame.from)) }

    /// Delivers messages in transit until no more arrive.
    func settle() {
        var quiet = 0
        while quiet < 3 {
            let frames = wire.state.withLock { state in
                defer { state.waiting = [] }
                return state.waiting
            }
            for frame in frames { deliver(frame) }
            let before = sent
            for hub in hubs.values {
                hub.harness.database.engine.readPeers()
                hub.harness.settle()
            }
            quiet = frames.isEmpty && before == sent && wire.state.withLock({ $0.waiting.isEmpty }) ? quiet + 1 : 0
        }
    }

    /// Advances the time of all hubs.
    func advance(ms: Int64, step: Int64 = 250) {
        var left = ms
        while left > 0 {
            for hub in hubs.values { hub.harness.time.advance(ms: min(step, left)) }
            settle()
            left -= step
        }
    }
}

/// A journal that can fail for one of its hubs.
final class KillableJournal: Journal {
    private let inner: MemoryJournal
    private let isDead = Atomic(false)
    /// Whether appends are stored, but never answered.
    let isSilent = Atomic(false)
    /// Completions of appends that are neither stored nor answered; nil when appends are answered immediately.
    private let held = Mutex<[@Sendable (Result<Void, JournalError>) -> Void]?>(nil)
    /// Answers of stored appends; nil when each is sent immediately.
    private let late = Mutex<[@Sendable () -> Void]?>(nil)

    init(_ inner: MemoryJournal) { self.inner = inner }

    func kill() { isDead.store(true, ordering: .relaxed) }

    /// Answers no append from now on.
    func hold() { held.withLock { $0 = [] } }

    /// The number of appends held.
    var waiting: Int { held.withLock { $0?.count ?? 0 } }

    /// Refuses the held appends, and accepts new ones.
    func refuse(_ error: JournalError) {
        let refused = held.withLock { held in
            defer { held = nil }
            return held ?? []
        }
        for completion in refused { completion(.failure(error)) }
    }

    /// Stores new appends, and answers them on `answer()`.
    func delay() { late.withLock { $0 = [] } }
    func answer() {
        let answers = late.withLock { late in
            defer { late = nil }
            return late ?? []
        }
        for answer in answers { answer() }
    }

    var isImmediate: Bool { false }
    func append(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        if isDead.load(ordering: .relaxed) { return }
        let isHeld = held.withLock { held in
            held?.append(completion)
            return held != nil
        }
        if isHeld { return }
        if isSilent.load(ordering: .relaxed) { return inner.append(batch) { _ in } }
        inner.append(batch) { [self] result in
            let isLate = late.withLock { late in
                late?.append { completion(result) }
                return late != nil
            }
            if !isLate { completion(result) }
        }
    }
    var stagedBytes: Int { .max }
    func stage(_ operations: [JournalOperation], completion: @escaping @Sendable (Result<JournalStage, JournalError>) -> Void) {
        inner.stage(operations, completion: completion)
    }
    @discardableResult
    func tail(from position: UInt64, _ receive: @escaping @Sendable (TailEvent) -> Void) -> JournalTail {
        inner.tail(from: position, receive)
    }
    func store(_ snapshot: JournalSnapshot, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        inner.store(snapshot, completion: completion)
    }
    func whenSnapshotDue(_ ask: @escaping @Sendable () -> Void) {}
    func truncate(upTo sequence: UInt64, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {}
    func close(completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {}
}
