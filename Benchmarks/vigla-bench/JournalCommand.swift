import ArgumentParser
import CLinux
import Dispatch
import Glibc
import Histogram
import JSONTree
import Journal
import SQLiteJournal
import Scheduling
import Synchronization

/// The cost of durability: commits compared with the disk's own `fdatasync`, many writers sharing commits, snapshots during commits,
/// and recovery.
struct JournalBench: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "journal", abstract: "Commits, snapshots and recovery of the journal, against the disk's own fdatasync.")

    @Option(help: "Where the data goes; on the disk that is measured. It is removed afterwards.") var folder = "./vigla-bench-data"
    @Option(help: "Size of the tree for snapshots and recovery, in MB of JSON.") var megabytes = 100
    @Option(help: "Seconds for each measurement of commits.") var seconds = 3.0
    @Option(help: "Waiting connections that share commits.") var connections = 1000
    @Option(help: "Journalled operations to recover.") var operations = 400_000
    @Option(help: "Only commits, replay, recovery or snapshots.") var only = ""
    @Option(help: "How far a commit has gone when it is acknowledged: full or normal.") var durability = "full"
    @Option(help: "Commits a second beside snapshots, whether those before are durable or not.") var pace = 500

    func validate() throws {
        guard megabytes > 0, seconds > 0, connections > 0, operations > 0, pace > 0, Durability(rawValue: durability) != nil else {
            throw ValidationError("see --help")
        }
        guard access(folder, F_OK) != 0 else { throw ValidationError("\(folder) exists; choose another --folder") }
    }

    func run() throws {
        defer { Self.remove(folder) }
        if only.isEmpty || only == "commits" { try commits() }
        if only.isEmpty || only == "replay" { try recoveryOfOperations() }
        if only == "recovery" { try recoveryOfSnapshot() }
        if only.isEmpty || only == "snapshots" { try snapshots() }
    }

    // MARK: Commits

    private func commits() throws {
        let store = try open("commits")
        let journal = store.journal(for: "main")
        // Alternating, so that both see the same load of the machine.
        var (disk, single) = (Histogram<UInt64>(), Histogram<UInt64>())
        let probe = try DiskProbe(folder + "/probe")
        var sequence: UInt64 = 0
        let end = now() + UInt64(seconds * 1e9)
        while now() < end {
            for _ in 0..<50 { disk.record(try probe.write()) }
            for _ in 0..<50 {
                let start = now()
                try commit([Self.position(sequence)], to: journal, &sequence)
                single.record(now() - start)
            }
        }
        let ratio = Double(single.valueAtPercentile(50)) / Double(disk.valueAtPercentile(50))
        print("disk: 4 KiB and fdatasync: \(Self.line(disk))")
        print("one writer: \(Self.line(single)); ratio of medians \(ratio.fixed(2))")
        try shared(journal, from: sequence)
        try store.close()
    }

    /// Each connection waits for its write before it sends the next; waiting writes become one batch, as in a database.
    private func shared(_ journal: SQLiteJournal, from sequence: UInt64) throws {
        let load = SharedLoad(journal, connections: connections, from: sequence)
        let before = processCPU()
        let result = load.run(seconds: seconds)
        let cpu = Double(processCPU() - before) / 1000 / Double(max(1, result.writes))
        print("\(connections) waiting writers: \(Int(Double(result.writes) / seconds)) writes/s in \(result.batches) commits, cpu "
            + "\(cpu.fixed(2)) µs a write")
    }

    // MARK: Recovery

    private func recoveryOfOperations() throws {
        for width in [1, 20] {
            let store = try open("replay-\(width)", .normal)
            let journal = store.journal(for: "main")
            let done = DispatchSemaphore(value: 0)
            let batches = operations / width
            for i in 0..<batches {
                let writes = (0..<width).map { Self.position(UInt64(i * width + $0)) }
                journal.append(JournalBatch(sequence: UInt64(i + 1), after: UInt64(i), operations: writes)) { _ in
                    if i + 1 == batches { done.signal() }
                }
            }
            done.wait()
            try store.close()
            let again = try open("replay-\(width)", .normal)
            let (start, cpuBefore) = (now(), processCPU())
            let recovered = try again.recover("main")
            let (wall, cpu) = (Double(now() - start) / 1e9, Double(processCPU() - cpuBefore) / 1e9)
            guard recovered.replayed == batches else { throw BenchError.incomplete("\(recovered.replayed) of \(batches) batches") }
            print("replay, \(width) a batch: \(Int(Double(batches * width) / wall)) operations/s, cpu "
                + "\((cpu / Double(operations) * 1e6).fixed(2)) µs each")
            try again.close()
        }
    }

    // MARK: Snapshots

    private func tree() -> (root: Node, count: Int) {
        var root = Node.null
        let count = megabytes * 1_000_000 / Self.record(0).json.utf8.count
        for start in stride(from: 0, to: count, by: 10_000) {
            let some = Node.object((start..<min(count, start + 10_000)).map { (Self.key($0), Self.record($0)) })
            root.merge(some, at: "people")
        }
        return (root, count)
    }

    private func recoveryOfSnapshot() throws {
        let (root, count) = tree()
        let store = try open("tree")
        var sequence: UInt64 = 0
        try commit([.set(.root, root)], to: store.journal(for: "main"), &sequence)
        let done = DispatchSemaphore(value: 0)
        store.journal(for: "main").store(JournalSnapshot(root: root, sequence: sequence)) { _ in done.signal() }
        done.wait()
        try store.close()
        try recover(root, count)
    }

    private func recover(_ root: Node, _ count: Int) throws {
        let again = try open("tree")
        let (start, cpuBefore) = (now(), processCPU())
        let recovered = try again.recover("main")
        let (wall, cpu) = (Double(now() - start) / 1e9, Double(processCPU() - cpuBefore) / 1e9)
        guard recovered.root == root else { throw BenchError.incomplete("another tree was recovered") }
        print("recovery of the snapshot: \((Double(megabytes) / wall).fixed(1)) MB/s (\(wall.fixed(2)) s for \(count) records, "
            + "\(recovered.replayed) batches behind it), cpu \(cpu.fixed(2)) s")
        try again.close()
    }

    private func snapshots() throws {
        let (made, count) = tree()
        var root = made
        let store = try open("tree")
        let journal = store.journal(for: "main")
        var sequence: UInt64 = 0
        try commit([.set(.root, root)], to: journal, &sequence)
        // Wait until the log that the load left behind is copied.
        try latencies(journal, &root, &sequence, forMs: 3000) { false }
        try duringSnapshot("the first snapshot", journal, &root, &sequence)
        for i in 0..<100 { try commit([Self.change(i * 7919 % count, &root)], to: journal, &sequence) }
        try duringSnapshot("one after 100 scattered writes", journal, &root, &sequence)
        // One change in nearly every chunk.
        let all = megabytes * 8
        for i in 0..<all { try commit([Self.change(count / all * i, &root)], to: journal, &sequence) }
        try duringSnapshot("one of all again", journal, &root, &sequence)
        try store.close()
        try recover(root, count)
    }

    /// Latencies for a while without a snapshot, and during one.
    private func duringSnapshot(_ title: String, _ journal: SQLiteJournal, _ root: inout Node, _ sequence: inout UInt64) throws {
        let quiet = try latencies(journal, &root, &sequence, forMs: Int(seconds * 1000)) { false }
        let isDone = Moment()
        let start = now()
        let before = processCPU()
        journal.store(JournalSnapshot(root: root, sequence: sequence)) { isDone.raise($0, at: now()) }
        let busy = try latencies(journal, &root, &sequence, forMs: 600_000) { isDone.time != nil }
        let cpu = Double(processCPU() - before) / 1e9
        guard let time = isDone.time else { throw BenchError.incomplete("the snapshot failed") }
        let more = (Double(busy.valueAtPercentile(99)) - Double(quiet.valueAtPercentile(99))) / 1e6
        print("commits before \(title): \(Self.line(quiet))")
        print("commits during \(title): \(Self.line(busy)); \((Double(time - start) / 1e9).fixed(2)) s, cpu \(cpu.fixed(2)) s; "
            + "p99 + \(more.fixed(1)) ms")
    }

    /// Commits at a fixed pace until the time is over or `isDone`: each is timed from when it was due until it is durable. None waits
    /// for the one before, so a stall counts for all commits due meanwhile.
    @discardableResult
    private func latencies(
        _ journal: SQLiteJournal, _ root: inout Node, _ sequence: inout UInt64, forMs: Int, until isDone: () -> Bool
    ) throws -> Histogram<UInt64> {
        let seen = CommitLatencies()
        let every = 1_000_000_000 / UInt64(pace)
        var due = now()
        let end = due + UInt64(forMs) * 1_000_000
        var i = 0
        while !isDone(), due < end {
            if case let time = now(), time < due { usleep(UInt32(truncatingIfNeeded: (due - time) / 1000)) }
            let batch = JournalBatch(sequence: sequence + 1, after: sequence, operations: [Self.change(i, &root)])
            sequence += 1
            seen.begin()
            journal.append(batch) { [due] in seen.end($0, ns: now() - due) }
            due += every
            i += 1
        }
        return try seen.whenAllEnded()
    }

    private func commit(_ operations: [JournalOperation], to journal: SQLiteJournal, _ sequence: inout UInt64) throws {
        let done = DispatchSemaphore(value: 0)
        let fault = Moment()
        journal.append(JournalBatch(sequence: sequence + 1, after: sequence, operations: operations)) { result in
            fault.raise(result, at: 1)
            done.signal()
        }
        done.wait()
        guard fault.time != nil else { throw BenchError.incomplete("a commit failed") }
        sequence += 1
    }

    // MARK: Data

    private func open(_ name: String, _ durability: Durability? = nil) throws -> JournalStore {
        var settings = JournalStore.Settings(durability: durability ?? Durability(rawValue: self.durability) ?? .full)
        settings.snapshotAfterBytes = .max
        settings.snapshotAfterBatches = .max
        return try JournalStore.open(folder: folder + "/" + name, settings: settings, scheduler: .system())
    }

    private static func key(_ i: Int) -> Key { Key("-Nx\(1_000_000_000 + i)") }

    /// A record of about 200 bytes of JSON.
    private static func record(_ i: Int) -> Node {
        [
            "name": .string("person number \(i)"), "latitude": .number(37 + Double(i % 100_000) / 100_000),
            "longitude": .number(23 + Double(i % 77_777) / 77_777),
            "timestamp": .int(1_700_000_000_000 + Int64(i)), "tag": "walks about", "speed": .number(Double(i % 50) / 10),
            "heading": .int(Int64(i % 360)),
            "isMoving": .bool(i % 2 == 0),
        ]
    }

    /// A write like that of a walker's position.
    static func position(_ i: UInt64) -> JournalOperation {
        .set(Path(["locations", "user\(i % 10_000)", "current"].map { Key($0) }), record(Int(i % 1_000_000)))
    }

    private static func change(_ i: Int, _ root: inout Node) -> JournalOperation {
        let path = Path([Key("people"), key(i), Key("timestamp")])
        root.set(.int(Int64(i)), at: path)
        return .set(path, .int(Int64(i)))
    }

    private static func line(_ histogram: Histogram<UInt64>) -> String {
        let p = [50.0, 99, 99.9].map { Double(histogram.valueAtPercentile($0)) / 1000 }
        return "p50 \(p[0].fixed(0)) p99 \(p[1].fixed(0)) p99.9 \(p[2].fixed(0)) max \((Double(histogram.max) / 1000).fixed(0)) µs "
            + "(\(histogram.totalCount))"
    }

    private static func remove(_ folder: String) {
        guard let pointer = opendir(folder) else { return }
        while let entry = readdir(pointer) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name == "." || name == ".." { continue }
            let path = folder + "/" + name
            if unlink(path) != 0 { remove(path) }
        }
        closedir(pointer)
        rmdir(folder)
    }
}

/// The time that the disk itself takes to append a block and make it durable.
final class DiskProbe {
    private let descriptor: Int32
    private let block = [UInt8](repeating: 7, count: 4096)

    init(_ path: String) throws {
        descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw BenchError.system("open", errno: errno) }
        // The space is preallocated, as in SQLite's log.
        for _ in 0..<4096 { _ = Glibc.write(descriptor, block, block.count) }
        fsync(descriptor)
        lseek(descriptor, 0, SEEK_SET)
    }

    deinit { close(descriptor) }

    /// Writes a block; returns nanoseconds.
    func write() throws -> UInt64 {
        if lseek(descriptor, 0, SEEK_CUR) >= 4096 * 4096 { lseek(descriptor, 0, SEEK_SET) }
        let start = now()
        guard Glibc.write(descriptor, block, block.count) == block.count, fdatasync(descriptor) == 0 else {
            throw BenchError.system("fdatasync", errno: errno)
        }
        return now() - start
    }
}

private func now() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// User and system time of this process in ns.
private func processCPU() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}
