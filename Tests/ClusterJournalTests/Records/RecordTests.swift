import JSONTree
import Testing
import TestSupport

@testable import ClusterJournal
@testable import Journal

@Suite(.timeLimit(.minutes(30))) struct NatsVersionTests {
    /// Servers' answers about a log, cut to the relevant part.
    @Test(arguments: [
        (#"{"config":{"metadata":{"_nats.level":"3","_nats.ver":"2.14.6"}},"cluster":{"leader":"n1"}}"#, nil),
        (#"{"config":{"metadata":{"_nats.ver":"2.15.0-RC.1"}}}"#, nil), (#"{"config":{"metadata":{"_nats.ver":"3.0.0"}}}"#, nil),
        (#"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#, nil),
        (#"{"config":{"metadata":{"_nats.ver":"2.14.5"}},"cluster":{"leader":"n1"}}"#,
            "NATS server n1 is version 2.14.5; a hub needs 2.14.6"),
        (#"{"config":{"metadata":{"_nats.ver":"2.9.30"}}}"#, "the NATS server is version 2.9.30; a hub needs 2.14.6"),
        (#"{"config":{"metadata":{"_nats.ver":"newest"}}}"#, "the NATS server is version newest; a hub needs 2.14.6"),
        (#"{"config":{"name":"x"},"cluster":{"leader":"n2"}}"#, "NATS server n2 is older than 2.11; a hub needs 2.14.6"),
    ] as [(String, String?)]) func server_thatIsTooOld_isRefused(_ answer: String, _ refusal: String?) {
        let said = NatsVersion.refusal(of: Array(answer.utf8), oldest: .oldest)
        #expect(said?.prefix(refusal?.count ?? 0) == refusal?[...], "\(said ?? "taken")")
    }
}

@Suite(.timeLimit(.minutes(30))) struct RecordTests {
    static func batch(_ sequence: UInt64, after last: UInt64, id: UInt64 = 1, epoch: UInt64 = 0) -> JournalBatch {
        JournalBatch(sequence: sequence, after: last, operations: [.set("n", .int(Int64(sequence)))], id: id, epoch: epoch)
    }

    private static func encoded(_ entries: [LogRecord.Entry]) -> [UInt8] {
        var body: [UInt8] = []
        for entry in entries { LogRecord.encode(entry, into: &body) }
        return body
    }

    private static func record(_ random: inout SeededRandom) -> LogRecord {
        var marks: [String: UInt64] = [:]
        return LogRecord(entries: (0...random.below(4)).map { _ in
            let namespace = random.pick(["main", "other", "é 😀", "a/b \"c\""])
            var batch = JournalBatch(after: marks[namespace] ?? UInt64(random.below(1000)))
            for _ in 0...random.below(3) {
                batch.append((0..<random.below(3)).map { i in
                    switch random.below(5) {
                    case 0: .set(Path(["a", Key("k\(i)")]), ["x": .int(Int64(i)), "y": "\u{0}\"\\é"])
                    case 1: .priority("a", 1.5)
                    case 2: .add(.root, ["z": true])
                    case 3: .written("a", 17)
                    default: .pendingRows(.advance(3, 2))
                    }
                }, pending: random.chance(30) ? [.forget(session: "s")] : [])
            }
            (batch.id, batch.epoch) = (random.next(), 3)
            marks[namespace] = batch.sequence
            return LogRecord.Entry(namespace: namespace, batch: batch)
        })
    }

    @Test func record_encoded_isReadBack() {
        var random = SeededRandom(1)
        for _ in 0..<300 {
            let record = Self.record(&random)
            #expect(LogRecord(decoding: Self.encoded(record.entries)) == record)
        }
    }

    @Test func record_ofBatchesThatDoNotFollowOrAreOfTwoEpochs_isRefused() {
        let first = LogRecord.Entry(namespace: "main", batch: Self.batch(2, after: 1, epoch: 1))
        for next in [Self.batch(4, after: 3, epoch: 1), Self.batch(3, after: 2, epoch: 2), Self.batch(3, after: 3, epoch: 1)] {
            #expect(LogRecord(decoding: Self.encoded([first, LogRecord.Entry(namespace: "main", batch: next)])) == nil)
        }
        let other = LogRecord.Entry(namespace: "other", batch: Self.batch(9, after: 7))
        #expect(LogRecord(decoding: Self.encoded([first, other]))?.entries.count == 2)
        #expect(LogRecord(decoding: []) == nil)
        for (length, isRead) in [(LogRecord.nameBytes, true), (LogRecord.nameBytes + 1, false)] {
            let long = LogRecord.Entry(namespace: String(repeating: "n", count: length), batch: Self.batch(1, after: 0))
            #expect((LogRecord(decoding: Self.encoded([long])) != nil) == isRead)
        }
    }

    /// Flipped, cut and random bytes: decoded or refused, and no changed message passes the checksum.
    @Test(.timeLimit(.fuzzing)) func message_ofAnyBytes_isReadOrRefused() {
        FuzzLoop("cluster-message", count: 4000).run { seed in
            var random = SeededRandom(seed)
            let body = Self.encoded(Self.record(&random).entries)
            let message = LogMessage(id: random.next() | 1, previous: random.next(), hub: 7, part: 0, parts: 1, body: body[...])
            var bytes = message.encoded
            guard LogMessage(decoding: bytes) == message else { return "a message is not read back" }
            for _ in 0...random.below(3) {
                switch random.below(3) {
                case 0: bytes[random.below(bytes.count)] ^= UInt8(1 << random.below(8))
                case 1: bytes = Array(bytes.prefix(random.below(bytes.count) + 1))
                default: bytes.insert(UInt8(random.below(256)), at: random.below(bytes.count))
                }
            }
            if bytes != message.encoded, LogMessage(decoding: bytes) != nil { return "a changed message passes" }
            // Even with a valid checksum, no message ends the process.
            var changed = body
            for _ in 0...random.below(4) { changed[random.below(changed.count)] = UInt8(random.below(256)) }
            _ = LogRecord(decoding: changed)
            _ = LogRecord(decoding: Array(changed.prefix(random.below(changed.count))))
            return nil
        }
    }

    // MARK: Parts

    private func part(_ id: UInt64, _ part: Int, of parts: Int, hub: UInt64 = 1, _ body: [UInt8]) -> LogMessage {
        LogMessage(id: id, previous: id - 1, hub: hub, part: part, parts: parts, body: body[...])
    }

    @Test func parts_inARow_areARecord() {
        var assembler = RecordAssembler()
        #expect(assembler.receive(part(10, 0, of: 3, [1, 2])) == nil)
        #expect(assembler.receive(part(11, 1, of: 3, [3])) == nil)
        #expect(assembler.receive(part(12, 2, of: 3, [4])) == [1, 2, 3, 4])
        #expect(assembler.receive(part(13, 0, of: 1, [5])) == [5])
    }

    @Test func parts_thatAreInterrupted_areDroppedWhole() {
        let interruptions: [(LogMessage, [UInt8]?)] = [
            (part(20, 0, of: 1, [9]), [9]), (part(20, 0, of: 2, hub: 2, [9]), nil), (part(20, 1, of: 3, [9]), nil),
            (part(11, 1, of: 3, hub: 2, [9]), nil), (part(11, 1, of: 2, [9]), nil),
        ]
        for (interruption, result) in interruptions {
            var assembler = RecordAssembler()
            _ = assembler.receive(part(10, 0, of: 3, [1]))
            #expect(assembler.receive(interruption) == result)
            #expect(assembler.receive(part(11, 1, of: 3, [2])) == nil && assembler.receive(part(12, 2, of: 3, [3])) == nil)
        }
        var assembler = RecordAssembler()
        #expect(assembler.receive(part(12, 2, of: 3, [3])) == nil)
        _ = assembler.receive(part(10, 0, of: 2, [1]))
        assembler.interrupt()
        #expect(assembler.receive(part(11, 1, of: 2, [2])) == nil)
    }

    // MARK: Which batches count

    @Test func ledger_takesWhatFollowsAndRefusesTheRest() {
        var ledger = Ledger()
        #expect(ledger.verdict(on: Self.batch(5, after: 0, epoch: 2), "main", at: 1) == .applies)
        ledger.record(Self.batch(5, after: 0, epoch: 2), "main", at: 1)
        #expect(ledger.verdict(on: Self.batch(6, after: 5, epoch: 1), "main", at: 2) == .isRefused(.superseded(epoch: 1, newest: 2)))
        #expect(ledger.verdict(on: Self.batch(7, after: 6, epoch: 2), "main", at: 2) == .isRefused(.conflict(expected: 6, last: 5)))
        #expect(ledger.verdict(on: Self.batch(6, after: 5, epoch: 2), "main", at: 2) == .applies)
        #expect(ledger.verdict(on: Self.batch(6, after: 5, epoch: 3), "main", at: 2) == .applies)
        #expect(ledger.verdict(on: Self.batch(1, after: 0), "other", at: 2) == .applies)
    }

    /// If messages arrive again after a restart, the same batches are applied, each once, also when the process ended within a record.
    @Test func ledger_restored_decidesAsBefore() {
        var random = SeededRandom(7)
        for _ in 0..<200 {
            // A log with batches that do not count, by writers that should not exist.
            var (ledger, applied) = (Ledger(), [(UInt64, Int)]())
            var log: [[LogRecord.Entry]] = []
            var histories = [Ledger()]
            for position in UInt64(1)...12 {
                let entries = (0...random.below(2)).map { _ -> LogRecord.Entry in
                    let namespace = random.pick(["a", "b"])
                    let mark = ledger[namespace]
                    let last = random.chance(70) ? mark.last : UInt64(random.below(12))
                    let epoch = random.chance(80) ? mark.epoch : UInt64(random.below(3))
                    let batch = Self.batch(last + 1 + UInt64(random.below(2)), after: last, epoch: epoch)
                    return LogRecord.Entry(namespace: namespace, batch: batch)
                }
                // As the decoder delivers it: per namespace only batches that follow.
                let record = LogRecord(decoding: Self.encoded(entries))?.entries ?? []
                log.append(record)
                for (i, entry) in record.enumerated() where ledger.verdict(on: entry.batch, entry.namespace, at: position) == .applies {
                    ledger.record(entry.batch, entry.namespace, at: position)
                    applied.append((position, i))
                    histories.append(ledger)
                }
            }
            // Killed after any of them, and restarted from an earlier message.
            let done = random.below(histories.count)
            var again = histories[done]
            var seen = Array(applied.prefix(done))
            let newest = seen.last?.0 ?? 0
            for position in (newest == 0 ? 0 : newest - UInt64(random.below(Int(newest))) - 1)..<12 {
                for (i, entry) in log[Int(position)].enumerated()
                where again.verdict(on: entry.batch, entry.namespace, at: position + 1) == .applies {
                    again.record(entry.batch, entry.namespace, at: position + 1)
                    seen.append((position + 1, i))
                }
            }
            #expect(seen.map { [Int($0.0), $0.1] } == applied.map { [Int($0.0), $0.1] } && again.marks == ledger.marks)
        }
    }

    @Test func position_isReadBack_andOtherBytesAreNot() {
        let position = StoredPosition(created: -5, sequence: 9, complete: LogPlace(sequence: 8, id: .max))
        #expect(StoredPosition(position.setting.value) == position)
        #expect(StoredPosition(Array(position.setting.value.dropLast())) == nil && StoredPosition(position.setting.value + [0]) == nil)
    }
}
