import CLinux
import Dispatch
import Foundation
import Glibc
import Journal
import JSONTree
import SQLiteJournal
import Scheduling

/// The rows about stored data.
extension TableServers {
    func stored(_ isWanted: TableFilter) throws -> [TableRow] {
        var rows: [TableRow] = []
        if isWanted("parse of a record of 320 bytes") {
            let micros = try Self.parseMicros()
            rows.append(TableRow(name: "parse of a record of 320 bytes", measured: "\(micros.fixed(2)) µs", asked: "≤ 1.2 µs"))
        }
        if isWanted("leaf in a record of five fields") {
            let kept = try KeptValue(reading: KeptValue.records(40_000, fields: 5))
            let (bytes, json) = (Double(kept.allocated) / 200_000, Double(kept.jsonBytes) / 200_000)
            rows.append(TableRow(
                name: "leaf in a record of five fields", measured: "\(bytes.fixed(1)) bytes", ratio: bytes / json, asked: "≤ 40 bytes",
                beside: "its JSON \(json.fixed(1)) bytes"))
        }
        if isWanted("[1,1,…] while it is read") {
            let kept = try KeptValue(reading: KeptValue.ones(bytes: 10_000_000))
            rows.append(TableRow(
                name: "[1,1,…] while it is read", measured: "\((Double(kept.highest) / 1e7).fixed(2)) bytes a byte",
                asked: "≤ 4 bytes a byte", beside: "kept \((Double(kept.allocated) / 1e7).fixed(2))"))
        }
        if isWanted("idle connection") {
            let figures = try IdleLoad.subjects(vigla).map { try IdleLoad(connections: 10_000).kilobytes($0.start(), $0.target) }
            rows.append(TableRow(
                name: "idle connection", measured: "\(figures[0].fixed(2)) KB", ratio: figures[0] / figures[1], asked: "≤ 1.5 KB",
                beside: "a bare loop \(figures[1].fixed(2)) KB"))
        }
        if isWanted("recovery") { rows += [try replay(), try recovery()] }
        if isWanted("GET of 112 MB") { rows.append(try largeGet()) }
        return rows
    }

    private static func parseMicros() throws -> Double {
        try (0..<7).map { _ in
            let start = cpu()
            for _ in 0..<20_000 { workloadSink &+= try Workload.parsed(Workload.record).childCount }
            return (cpu() - start) * 1e6 / 20_000
        }.median
    }

    private static func cpu() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    // MARK: Recovery

    private func replay() throws -> TableRow {
        let operations = 200_000
        let seconds = try recover("replay") { journal in
            let done = DispatchSemaphore(value: 0)
            for i in 0..<operations {
                let writes = [JournalBench.position(UInt64(i))]
                journal.append(JournalBatch(sequence: UInt64(i + 1), after: UInt64(i), operations: writes)) { _ in
                    if i + 1 == operations { done.signal() }
                }
            }
            done.wait()
        }
        return TableRow(
            name: "recovery of operations", measured: "\(Int(Double(operations) / seconds))/s", asked: "≥ 500,000/s")
    }

    private func recovery() throws -> TableRow {
        let json = KeptValue.records(500_000, fields: 5)
        let root = try Workload.parsed(json)
        let seconds = try recover("snapshot") { journal in
            let done = DispatchSemaphore(value: 0)
            journal.append(JournalBatch(sequence: 1, after: 0, operations: [.set(.root, root)])) { _ in done.signal() }
            done.wait()
            journal.store(JournalSnapshot(root: root, sequence: 1)) { _ in done.signal() }
            done.wait()
        }
        let rate = Double(json.count) / 1e6 / seconds
        return TableRow(name: "recovery of a snapshot", measured: "\(rate.fixed(0)) MB/s of JSON", asked: "≥ 200 MB/s")
    }

    /// Seconds to recover the written data.
    private func recover(_ name: String, _ write: (SQLiteJournal) throws -> Void) throws -> Double {
        let own = folder.appending(path: name).path
        func open() throws -> JournalStore {
            let settings = JournalStore.Settings(durability: .normal, snapshotAfterBytes: .max, snapshotAfterBatches: .max)
            return try JournalStore.open(folder: own, settings: settings, scheduler: .system())
        }
        let store = try open()
        try write(store.journal(for: "main"))
        try store.close()
        let again = try open()
        let start = vigla_monotonic_ns()
        let recovered = try again.recover("main")
        let seconds = Double(vigla_monotonic_ns() - start) / 1e9
        guard recovered.root.hasChildren else { throw BenchError.incomplete("nothing was recovered") }
        try again.close()
        return seconds
    }

    // MARK: A large GET

    private func largeGet() throws -> TableRow {
        let server = try hub()
        let body = KeptValue.records(775_000, fields: 5)
        let put = "PUT /big.json?ns=default&print=silent HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        let request = Array("\(put)Content-Length: \(body.count)\r\n\r\n".utf8) + body
        guard try Self.exchange(server, request).prefix(12) == "HTTP/1.1 204" else {
            throw BenchError.unexpected("the large value was refused")
        }
        var (rates, bytes): ([Double], Int) = ([], 0)
        for _ in 0..<max(2, runs) {
            let start = vigla_monotonic_ns()
            let get = "GET /big.json?ns=default HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
            let answer = try Self.exchange(server, Array(get.utf8), counting: &bytes)
            guard answer.hasPrefix("HTTP/1.1 200"), bytes > body.count else { throw BenchError.unexpected(answer) }
            rates.append(Double(bytes) / 1e6 / (Double(vigla_monotonic_ns() - start) / 1e9))
        }
        return TableRow(
            name: "GET of 112 MB", measured: "\(rates.median.fixed(0)) MB/s (\(body.count / 1_000_000) MB)", asked: "≥ 400 MB/s")
    }

    private static func exchange(_ server: ServerProcess, _ request: [UInt8]) throws -> String {
        var bytes = 0
        return try exchange(server, request, counting: &bytes)
    }

    /// Sends a request and reads to the end of the connection.
    /// - Returns: the beginning of the answer.
    private static func exchange(_ server: ServerProcess, _ request: [UInt8], counting bytes: inout Int) throws -> String {
        let peer = try MeasuredPeer(port: server.port)
        try peer.send(request)
        var head: [UInt8] = []
        bytes = try peer.readToEnd { if head.isEmpty { head = Array($0.prefix(200)) } }
        return String(decoding: head, as: UTF8.self)
    }
}
