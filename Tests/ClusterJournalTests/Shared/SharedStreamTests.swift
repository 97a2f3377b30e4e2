import CNats
import Dispatch
import Glibc
import Journal
import Logging
import Scheduling
import SQLiteJournal
import Synchronization
import TestCluster
import Testing
import TestSupport

@testable import ClusterJournal

/// The logs of accounts and of settings, over three servers.
@Suite(.timeLimit(.minutes(30)), .enabled(if: TestCluster.program != nil, "\(TestCluster.absent)")) struct SharedStreamTests {
    private let cluster: TestCluster
    private let name = "shared\(UInt32.random(in: 1 ... .max))"

    init() throws { cluster = try TestCluster.shared.get() }

    /// Follows a log, and applies records by adding them to a list.
    private final class Follower: Sendable {
        let stream: SharedStream
        private let applied = Mutex<(place: SharedPlace, records: [[UInt8]])>((SharedPlace(), []))

        init(
            _ connection: NatsConnection, _ name: String, from place: SharedPlace? = nil,
            _ change: (inout ClusterSettings) -> Void = { _ in }
        ) {
            var settings = ClusterSettings(name: name)
            change(&settings)
            stream = SharedStream(
                connection, name: settings.sharedLogName("test"), hub: UInt64.random(in: 1 ... .max), settings, .system(), .silent)
            applied.withLock { $0.place = place ?? SharedPlace() }
            stream.follow(from: place) {}
        }

        var records: [[UInt8]] { applied.withLock { $0.records } }
        var place: SharedPlace { applied.withLock { $0.place } }

        func receive(waitMs: Int = 0) {
            let entries = stream.receive(waitMs: waitMs)
            applied.withLock { applied in
                for entry in entries where entry.place.sequence > applied.place.sequence {
                    #expect(entry.place.sequence == applied.place.sequence + 1)
                    applied.place = entry.place
                    if let record = entry.record { applied.records.append(record) }
                }
            }
        }

        func catchUp(withinMs: Int = 30_000) -> Bool { stream.waitForAll(withinMs: withinMs) { receive() } }

        /// Appends a record computed from the previous ones.
        func append(_ make: (Int) -> [UInt8]) throws {
            for _ in 0..<1_000 {
                let (place, records) = applied.withLock { $0 }
                let record = make(records.count)
                switch stream.append(record, after: place) {
                case .stored(let place): return applied.withLock { $0 = (place, records + [record]) }
                case .conflict(let last): while self.place.sequence < last { receive(waitMs: 100) }
                case .refused(let error): throw error
                case .unknown(let reason): throw JournalError.unknown(reason: reason)
                }
            }
            throw JournalError.unavailable(reason: "too many conflicts")
        }

        func close() { stream.close {} }
    }

    @Test func recordsOfAll_areInOneOrder_eachMadeOfAllBefore() async throws {
        let followers = try (0..<3).map { _ in Follower(try cluster.connect(), name) }
        for follower in followers { #expect(follower.catchUp()) }
        await withTaskGroup(of: Void.self) { group in
            for follower in followers {
                group.addTask { for _ in 0..<60 { do { try follower.append { [UInt8($0)] } } catch { Issue.record("\(error)") } } }
            }
        }
        let late = Follower(try cluster.connect(), name)
        for follower in followers + [late] {
            #expect(follower.catchUp())
            #expect(follower.records == (0..<180).map { [UInt8($0)] })
            follower.close()
        }
    }

    @Test func largeRecord_isDivided_andWholeOnAll() throws {
        let (one, two) = (Follower(try cluster.connect(), name) { $0.messageBytes = 4096 }, Follower(try cluster.connect(), name))
        #expect(one.catchUp())
        let large = (0..<50_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        try one.append { _ in large }
        #expect(two.catchUp())
        try two.append { _ in [1] }
        #expect(one.catchUp())
        #expect(one.records == [large, [1]] && two.records == one.records && one.place == two.place)
        // A follower that reconnects gets the rest.
        let again = Follower(try cluster.connect(), name, from: one.place)
        try one.append { _ in [2] }
        #expect(again.catchUp())
        #expect(again.records == [[2]])
        #expect(one.stream.append([UInt8](repeating: 0, count: SharedStream.mostParts * 4096), after: one.place).isRefused)
        for follower in [one, two, again] { follower.close() }
    }

    @Test func serversThatDoNotAnswer_areWaitedForOnce_andThenFound() throws {
        let own = try TestCluster()
        let follower = Follower(try own.connect(), name)
        #expect(follower.catchUp())
        try follower.append { _ in [1] }
        for i in 0..<3 { own.signal(i, SIGSTOP) }
        let began = DispatchTime.now().uptimeNanoseconds
        #expect(!follower.stream.append([2], after: follower.place).isStored)
        let took = DispatchTime.now().uptimeNanoseconds - began
        // Not a time that the test depends on, but the bound of the code: appendMs and two attempts.
        #expect(took < 10_000_000_000)
        for _ in 0..<20 { #expect(follower.stream.append([2], after: follower.place).isRefused) }
        #expect(!follower.catchUp(withinMs: 100))
        for i in 0..<3 { own.signal(i, SIGCONT) }
        #expect(becomes {
            follower.receive()
            do { try follower.append { _ in [3] } } catch { return false }
            return true
        })
        #expect(follower.catchUp())
        #expect(follower.records.last == [3])
        follower.close()
    }

    // MARK: Shortened

    private func synced(_ stream: SharedStream) async -> Bool {
        await withCheckedContinuation { continuation in stream.sync { continuation.resume(returning: $0) } }
    }

    /// Whether the servers have sent all messages of the log to this many followers.
    private func hasSentAll(_ log: ShardLog, to followers: Int) -> Bool {
        var found: UnsafeMutablePointer<jsConsumerInfoList>?
        var code = jsErrCode(0)
        guard js_Consumers(&found, log.connection.stream, log.name, nil, &code) == NATS_OK, let found else { return false }
        defer { jsConsumerInfoList_Destroy(found) }
        let list = found.pointee
        return Int(list.Count) == followers && (0..<followers).allSatisfy { list.List[$0]?.pointee.NumPending == 0 }
    }

    /// Nothing of Vigla shortens these logs; an operator can. Messages that were sent before may wait for a slot of the tail's window.
    @Test(arguments: [true, false]) func log_withoutTheNextMessage_isRefusedAtTheSecondCheck_unlessItArrivesBefore(arrives: Bool) async throws {
        let writer = Follower(try cluster.connect(), name)
        #expect(writer.catchUp())
        // Only `sync` causes checks.
        let reader = Follower(try cluster.connect(), name) { ($0.checkIntervalMs, $0.retryMs) = (3_600_000, 3_600_000) }
        #expect(reader.catchUp())
        let stream = reader.stream
        let window = UInt64(stream.log.settings.window)
        for i in 0..<window + 20 { try writer.append { _ in [UInt8(i)] } }
        #expect(writer.catchUp())
        let last = writer.place.sequence
        // The reader takes nothing, so its window is full.
        #expect(await becomes { stream.queue.sync { stream.follower.newest.sequence } == window && hasSentAll(stream.log, to: 2) })
        let isPurged = await withCheckedContinuation { done in stream.log.purge(before: last) { done.resume(returning: $0) } }
        #expect(isPurged)

        #expect(await !synced(stream))
        let (state, newest) = stream.queue.sync { (stream.follower.state, stream.follower.newest) }
        #expect(state == .following && newest.sequence == window)
        let place = SharedPlace(created: writer.place.created, sequence: newest.sequence, id: newest.id)
        guard case .conflict(last) = stream.append([9], after: place) else {
            Issue.record("an append behind a message that is not the last")
            return
        }
        if arrives {
            #expect(await becomes {
                reader.receive()
                return reader.place == writer.place
            })
            #expect(await synced(stream))
            #expect(reader.records == writer.records)
            try reader.append { _ in [9] }
        } else {
            for _ in 0..<2 {
                #expect(await !synced(stream))
                guard case .refusing(.regressed) = stream.queue.sync(execute: { stream.follower.state }) else {
                    Issue.record("it is not refused")
                    return
                }
                #expect(stream.append([9], after: place).isRefused)
                reader.receive()
            }
            #expect(reader.place.sequence == window)
        }
        for follower in [writer, reader] { follower.close() }
    }

    // MARK: Settings

    private func put(_ store: any SettingStore, _ value: [UInt8]?, if former: [UInt8]?? = nil) async -> JournalError? {
        await withCheckedContinuation { continuation in
            if let former {
                store.replace(former, by: value, setting: "s", of: "main") { continuation.resume(returning: $0.fault) }
            } else {
                store.put(value, setting: "s", of: "main") { continuation.resume(returning: $0.fault) }
            }
        }
    }

    @Test func setting_ofOneHub_isOfAll_andOutlivesThem() async throws {
        let hubs = try (0..<2).map { _ in try ClusterHub(cluster, name) }
        let stores = hubs.map(\.storage.settingStore)
        let heard = Mutex<[SettingChange]>([])
        stores[1].whenChanged { change in heard.withLock { $0.append(change) } }
        for store in stores { #expect(try store.settings(of: "main") == [:]) }
        #expect(await put(stores[0], [1]) == nil)
        #expect(await becomes { heard.withLock { $0 } == [SettingChange([1], setting: "s", of: "main")] })
        #expect(try stores[1].settings(of: "main")["s"] == [1])
        // Only a hub that knows the current value may replace it.
        #expect(await put(stores[1], [2], if: .some(nil)) == .changed(setting: "s"))
        #expect(await put(stores[1], [2], if: .some([1])) == nil)
        #expect(await put(stores[0], [3], if: .some([1])) == .changed(setting: "s"))
        for hub in hubs { await hub.close() }
        // Opened alone, the folder still has it, and a new hub gets it from the log.
        let alone = try JournalStore.open(folder: hubs[0].folder.path, scheduler: .system())
        #expect(try alone.settings(of: "main")["s"] == [2])
        try alone.close()
        let new = try ClusterHub(cluster, name)
        #expect(try new.storage.settingStore.settings(of: "main")["s"] == [2])
        await new.close()
    }

    @Test func folderOfBefore_bringsItsSettings_orTakesTheClusters() async throws {
        func folder(_ value: UInt8, _ more: String) async throws -> TemporaryFolder {
            let folder = try TemporaryFolder()
            let store = try JournalStore.open(folder: folder.path, scheduler: .system())
            #expect(await put(store, [value]) == nil)
            await withCheckedContinuation { done in store.put([9], setting: more, of: nil) { _ in done.resume() } }
            try store.close()
            return folder
        }
        let first = try ClusterHub(cluster, name, folder: await folder(1, "a"))
        #expect(try first.storage.settingStore.settings(of: "main")["s"] == [1])
        let second = try ClusterHub(cluster, name, folder: await folder(2, "b"))
        let store = second.storage.settingStore
        #expect(try store.settings(of: "main")["s"] == [1])
        #expect(try store.settings(of: nil)["a"] == [9] && store.settings(of: nil)["b"] == nil)
        for hub in [first, second] { await hub.close() }
    }

    @Test func change_isReadBack_andNoBytesCrash() {
        var random = SeededRandom(3)
        for change in [
            SettingChange([1, 2], setting: "rules", of: "main"), SettingChange(nil, setting: "é", of: nil),
            SettingChange([], setting: "x", of: ""),
        ] {
            let bytes = change.encoded
            #expect(SettingChange(decoding: bytes) == change)
            for end in 0..<bytes.count { #expect(SettingChange(decoding: Array(bytes[..<end])) == nil) }
            for _ in 0..<2_000 {
                var damaged = bytes
                damaged[random.below(damaged.count)] = UInt8(random.below(256))
                _ = SettingChange(decoding: damaged)
            }
        }
        #expect(SettingChange(decoding: SettingChange([1], setting: "", of: nil).encoded) == nil)
    }
}

extension SharedOutcome {
    fileprivate var isRefused: Bool { if case .refused = self { true } else { false } }
    fileprivate var isStored: Bool { if case .stored = self { true } else { false } }
}

extension Result where Success == Void, Failure == JournalError {
    fileprivate var fault: JournalError? { if case .failure(let error) = self { error } else { nil } }
}
