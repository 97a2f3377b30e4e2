import Dispatch
import JSONTree
import Synchronization

/// How the requests that wait share the queue.
///
/// ```
/// drained ── little ──────────────► handled in the order of arrival ──► one batch
///    └────── more than a turn ────► lines of the clients (RequestTurns) ──► a turn of all of them ──► one batch ─┐
///                                       ▲ what came meanwhile, and what else waits for the queue, has its turn   │
///                                       └────────────────────────────────────────────────────────────────────────┘
/// ```
/// A batch ends with its turn, so that the answer to a client's first request stands behind a small part of what others have asked.
/// While the log is behind, only clients get on that wait for nothing from it: else the line would only be longer there.
extension Core {
    /// Handles requests, those of one client in order, as a batch or several, and sends what a batch has to say when it is durable.
    func handle(_ items: [Database.Item]) {
        dispatchPrecondition(condition: .onQueue(queue))
        beginTurn()
        var handled = 0
        while handled < items.count, turns.isEmpty, spent < limits.turnWork, !isLogBehind {
            handleInBatch(items[handled])
            handled += 1
        }
        turns.append(items[handled...])
        endTurn()
        takeTurnLater()
    }

    /// Goes on with requests of a client that were held back, in order: with a few at once, with many in turns. They came before
    /// all that it has in its line.
    func goOn(with held: [Database.Item], of client: Client) {
        guard held.reduce(0, { $0 + Self.work(of: $1) }) <= limits.turnWork / 32 else {
            turns.prepend(held[...], of: client)
            return takeTurnLater()
        }
        for item in held { handleInBatch(item) }
    }

    /// Requests that are handed on to be handled again: they count as waiting until then.
    func countAgain(_ items: [Database.Item]) {
        let bytes = items.reduce(0) { $0 + $1.size }
        if bytes > 0 { gauge.waitingBytes.add(bytes, ordering: .relaxed) }
    }

    private func handleInBatch(_ item: Database.Item) {
        batchBytes += item.size
        spent += Self.work(of: item)
        let before = output.bytes + early.bytes
        handle(item)
        // What it has to say was encoded here.
        spent += max(0, output.bytes + early.bytes - before) / Self.bytesEncodedForWork
        finishLargeBatch()
    }

    private static func work(of item: Database.Item) -> Int { 1 + max(0, item.size - bytesOfSmall) / bytesOfWork }

    /// Bytes of a small request, with what it takes beside its text; and those beyond that are as much work as one.
    private static let bytesOfSmall = 2_560
    private static let bytesOfWork = 128
    /// Bytes of output, and children that a query selects, that are as much work as a small request.
    private static let bytesEncodedForWork = 1_024
    static let childrenForWork = 16

    /// Above this a batch ends early, and its turn: a few bytes of requests can ask for gigabytes, and until the output leaves no
    /// limit of the connections sees it.
    private static let outputBytesOfBatch = 4 << 20

    func finishLargeBatch() {
        guard output.bytes + early.bytes > Self.outputBytesOfBatch else { return }
        finishBatch()
        spent += limits.turnWork
    }

    // MARK: Turns

    /// Takes the next turn behind what waits for the queue, if requests wait for one.
    func takeTurnLater() {
        counters.waitingRequests = turns.requests
        guard !turns.isEmpty, !isTurnComing else { return }
        isTurnComing = true
        queue.async { [self] in takeTurn() }
    }

    private func takeTurn() {
        dispatchPrecondition(condition: .onQueue(queue))
        isTurnComing = false
        beginTurn()
        var (clients, isAnyReady) = (turns.askingClients, false)
        let share = max(1, limits.turnWork / max(1, clients))
        while clients > 0, spent < limits.turnWork, let line = turns.nextAsking() {
            clients -= 1
            if !isLogBehind || line.client.lastSent < firstWaiting {
                isAnyReady = true
                serve(line, share)
            }
            turns.finish(line)
        }
        clients = turns.leavingClients
        while clients > 0, !isLogBehind, let line = turns.nextLeaving() {
            clients -= 1
            isAnyReady = true
            serve(line, 1)
            turns.finish(line)
            if spent >= limits.turnWork { break }
        }
        endTurn()
        // Else the log says when it goes on.
        if isAnyReady { takeTurnLater() }
    }

    private func serve(_ line: RequestTurns.Line, _ share: Int) {
        let before = spent
        while spent - before < share, let item = turns.next(of: line) { handleInBatch(item) }
    }

    /// Whether the log has enough to do: who waits for it already gets no turn.
    private var isLogBehind: Bool { waitingCommits > limits.turnWork / 2 }

    private func beginTurn() {
        if refusal != nil { tryLogIfDue() } else { writeOwed() }
        spent = 0
    }

    private func endTurn() {
        tendIndexes()
        finishBatch()
        counters.waitingRequests = turns.requests
        gauge.publish(counters)
        if turns.isEmpty, !idleWaiters.isEmpty {
            let bodies = idleWaiters
            idleWaiters = []
            for body in bodies { body() }
        }
    }

    /// Calls back when no requests wait for a turn. What waits for background work is not waited for.
    func whenIdle(_ body: @escaping @Sendable () -> Void) {
        dispatchPrecondition(condition: .onQueue(queue))
        if turns.isEmpty { body() } else { idleWaiters.append(body) }
    }
}
