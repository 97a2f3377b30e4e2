import Dispatch
import Journal
import Logging
import SQLiteJournal
import Synchronization

/// A shard's snapshots on the servers, in the log `VIGLA_<cluster>_<shard>_snapshot`. The shard's writer
/// stores its folder's content there, so that the shard's log can be shortened and a new hub does not need another hub.
///
/// ```
/// write   folder ─► parts ─► messages, each behind the one before ─► end ─► previous snapshots are purged
/// read    messages ─► parts ─► this hub's folder ─► end ─► the import takes effect
/// ```
/// If two hubs write at the same time, the servers decide: the hub whose message is not the next one gives up. Calls block; make them on
/// `queue`.
final class SnapshotStream: @unchecked Sendable {
    // Sendable: confined to `queue`, except immutable state.
    let queue: DispatchQueue
    private let log: ShardLog
    private let store: JournalStore
    private let isInShard: @Sendable (String) -> Bool
    private let logger: Logger
    private let isStopped = Atomic(false)

    enum Fault: Error, CustomStringConvertible {
        case unreachable(String)
        /// Another hub is writing a snapshot.
        case conflict
        /// No snapshot exists, or none goes far enough.
        case absent
        /// The snapshot was removed meanwhile, or is damaged.
        case interrupted(String)
        case stopped

        var description: String {
            switch self {
            case .unreachable(let reason): reason
            case .conflict: "another hub writes one"
            case .absent: "there is none"
            case .interrupted(let reason): reason
            case .stopped: "the hub stops"
            }
        }
    }

    init(_ log: ShardLog, _ store: JournalStore, _ logger: Logger, isInShard: @escaping @Sendable (String) -> Bool) {
        (self.log, self.store, self.logger, self.isInShard) = (log, store, logger, isInShard)
        queue = DispatchQueue(label: "vigla.cluster.snapshots.\(log.name)", qos: .utility)
    }

    /// Makes a running call end soon. From any thread.
    func stop() { isStopped.store(true, ordering: .relaxed) }

    // MARK: State

    /// The place of the newest snapshot, if it was the last thing written, and its bytes; nil if there is no snapshot.
    func newest() throws(Fault) -> (place: SnapshotPlace, bytes: UInt64)? {
        guard let state = try state(mayCreate: false), state.last > 0, state.last >= state.first else { return nil }
        let bytes: [UInt8]?
        do throws(ShardLog.StateFault) { bytes = try log.message(at: state.last) } catch { throw .unreachable("\(error)") }
        guard let bytes, let message = SnapshotMessage(decoding: bytes), message.kind == .end else { return nil }
        return SnapshotPlace(message.body).map { ($0, state.bytes) }
    }

    private func state(mayCreate: Bool) throws(Fault) -> ShardLog.State? {
        let found: Result<ShardLog.State, ShardLog.StateFault> = wait { [log] done in log.look(mayCreate: mayCreate, at: 0, done) }
        switch found {
        case .success(let state): return state
        case .failure(.missing): return nil
        case .failure(let fault): throw .unreachable("\(fault)")
        }
    }

    private func wait<Value: Sendable>(_ body: (@escaping @Sendable (Value) -> Void) -> Void) -> Value {
        let given = Mutex<Value?>(nil)
        let done = DispatchSemaphore(value: 0)
        body { value in
            given.withLock { $0 = value }
            done.signal()
        }
        while true {
            done.wait()
            if let value = given.withLock({ $0 }) { return value }
        }
    }

    // MARK: Writing

    /// The snapshot being written.
    private struct Writing {
        var message: SnapshotMessage
        var last: UInt64
        var body: [UInt8] = []
        var place = SnapshotPlace(created: 0, complete: LogPlace())
    }

    /// Writes the folder's content of the shard, and removes the previous snapshots.
    /// - Returns: its place; nil if the folder has no content.
    func write() throws -> SnapshotPlace? {
        guard let state = try state(mayCreate: true) else { throw Fault.absent }
        var writing = Writing(
            message: SnapshotMessage(snapshot: UInt64.random(in: 1 ... .max), number: 0, kind: .begin, body: []), last: state.last)
        let first = state.last + 1
        let most = log.settings.messageBytes - 1024
        var isEmpty = false
        try store.export(of: isInShard, with: StoredPosition.name) { namespaces in
            for namespace in namespaces {
                guard let position = namespace.setting.flatMap(StoredPosition.init) else {
                    throw JournalError.corrupt(path: namespace.name, place: "position in the cluster's log")
                }
                writing.place.created = position.created
                if position.complete.sequence > writing.place.complete.sequence { writing.place.complete = position.complete }
            }
            isEmpty = writing.place.complete.sequence == 0
            guard !isEmpty else { return }
            writing.message.body = writing.place.encoded[...]
            try send(&writing)
        } give: { part in
            guard !isEmpty else { return }
            PartReader.encode(part, into: &writing.body)
            while writing.body.count >= most { try sendBody(&writing, most) }
        }
        if isEmpty { return nil }
        while !writing.body.isEmpty { try sendBody(&writing, most) }
        (writing.message.kind, writing.message.body) = (.end, writing.place.encoded[...])
        try send(&writing)
        _ = wait { [log] done in log.purge(before: first, done) }
        return writing.place
    }

    private func sendBody(_ writing: inout Writing, _ most: Int) throws(Fault) {
        let count = min(most, writing.body.count)
        (writing.message.kind, writing.message.body) = (.data, writing.body[..<count])
        try send(&writing)
        writing.body.removeFirst(count)
    }

    private func send(_ writing: inout Writing) throws(Fault) {
        if isStopped.load(ordering: .relaxed) { throw .stopped }
        let (bytes, id, last) = (writing.message.encoded, UInt64.random(in: 1 ... .max), writing.last)
        let outcome: AppendOutcome = wait { [log] done in log.append(bytes, id: id, after: last, done) }
        switch outcome {
        case .stored(let sequence), .duplicate(let sequence): writing.last = sequence
        case .conflict: throw .conflict
        case .unknown(let reason), .unavailable(let reason): throw .unreachable(reason)
        }
        writing.message.number += 1
    }

    // MARK: Reading

    /// Imports the first snapshot that contains everything before a message of the shard's log. Until the import is complete the folder is
    /// unchanged.
    /// - Parameter created: of the log that this hub has followed; 0 if none.
    func read(upTo needed: UInt64, created: Int64) throws -> SnapshotPlace {
        guard let state = try state(mayCreate: false), state.last > 0, state.last >= state.first else { throw Fault.absent }
        let messages = Messages()
        let tail = log.tail(from: state.first) { tail, sequence, bytes in
            messages.add(sequence, bytes, tail)
        } missing: { _, _ in
            messages.end()
        }
        defer { tail.stop() }
        var taking: (into: NamespaceImport, message: SnapshotMessage, parts: PartReader)?
        defer { taking?.into.giveUp() }
        while true {
            if isStopped.load(ordering: .relaxed) { throw Fault.stopped }
            guard let (sequence, bytes) = try messages.next() else { throw Fault.interrupted("it was removed meanwhile") }
            let message = SnapshotMessage(decoding: bytes)
            if let message, message.kind == .begin, let place = SnapshotPlace(message.body) {
                taking?.into.giveUp()
                taking = nil
                if place.complete.sequence >= needed, created == 0 || place.created == created {
                    taking = (NamespaceImport(into: store, setting: StoredPosition.name), message, PartReader())
                }
            } else if let open = taking {
                guard let message, message.snapshot == open.message.snapshot, message.number == open.message.number + 1 else {
                    open.into.giveUp()
                    taking = nil
                    continue
                }
                taking?.message = message
                if message.kind == .end {
                    guard open.parts.isAtEnd, let place = SnapshotPlace(message.body) else { throw Fault.interrupted("it is damaged") }
                    try open.into.commit()
                    taking = nil
                    return place
                }
                taking?.parts.add(message.body)
                while let part = try taking?.parts.next() { try open.into.add(part) }
            }
            if sequence >= state.last, taking == nil { throw Fault.absent }
        }
    }

    /// Received messages that are not processed yet; above its window the tail waits.
    private final class Messages: Sendable {
        private let came = DispatchSemaphore(value: 0)
        private let state = Mutex<(waiting: [(UInt64, [UInt8], LogTail)], isEnded: Bool)>(([], false))

        func add(_ sequence: UInt64, _ bytes: [UInt8], _ tail: LogTail) {
            state.withLock { $0.waiting.append((sequence, bytes, tail)) }
            came.signal()
        }

        func end() {
            state.withLock { $0.isEnded = true }
            came.signal()
        }

        private static let patienceSeconds = 30

        /// Nil when there is no next message.
        func next() throws(Fault) -> (UInt64, [UInt8])? {
            while true {
                guard came.wait(timeout: .now() + .seconds(Self.patienceSeconds)) == .success else {
                    throw .interrupted("nothing more of it came for \(Self.patienceSeconds) s")
                }
                let (next, isEnded) = state.withLock { state in (state.waiting.isEmpty ? nil : state.waiting.removeFirst(), state.isEnded) }
                if let next {
                    next.2.done()
                    return (next.0, next.1)
                }
                if isEnded { return nil }
            }
        }
    }
}
