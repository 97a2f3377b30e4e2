import Foundation
import Glibc
import Synchronization
import Testing
import TestSupport

#if VIGLA_CLUSTER
import TestCluster

/// Real hubs of a cluster: writes of one appear on all of them.
@Suite(.timeLimit(.minutes(30)), .enabled(if: TestCluster.program != nil, "\(TestCluster.absent)")) struct ClusterTests {
    private let arguments: [String]

    init() throws {
        let servers = try TestCluster.shared.get().urls.joined(separator: ",")
        arguments = ["--dev", "--port", "0", "--cluster", servers, "--cluster-name", "command\(UInt32.random(in: 1 ... .max))"]
    }

    private func set(_ hub: RunningHub, _ path: String, _ json: String) throws -> Command.Result {
        try Command.run("set", hub.url + path, json)
    }

    private func value(_ hub: RunningHub, _ path: String) throws -> String {
        try Command.run("get", hub.url + path).output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// `writing`, `following`, …; nil if the hub does not answer.
    private func role(_ hub: RunningHub) -> String? {
        guard let page = try? hub.page("/.health"), let found = page.firstMatch(of: /"namespaces":\{"default":"([a-z]+)"/) else { return nil }
        return String(found.1)
    }

    private func writer(among hubs: [RunningHub]) throws -> RunningHub {
        var found: RunningHub?
        #expect(becomes {
            let writing = hubs.filter { role($0) == "writing" }
            found = writing.count == 1 ? writing.first : nil
            return found != nil
        })
        return try #require(found)
    }

    private func content(_ hub: RunningHub) throws -> String { try value(hub, "/") }

    /// Writes numbers, one after the other, to any hub that accepts them, until it is stopped.
    private final class Load: Sendable {
        private struct State {
            var hubs: [RunningHub]
            var acknowledged: [Int] = []
            var mustEnd = false
            var hasEnded = false
        }

        // Handles of hubs are only read.
        private let state: Mutex<UncheckedSendable<State>>

        init(_ hubs: [RunningHub]) {
            state = Mutex(UncheckedSendable(State(hubs: hubs)))
            Thread { [self] in
                var (number, turn) = (0, 0)
                while !state.withLock({ $0.value.mustEnd }) {
                    let hubs = state.withLock { UncheckedSendable($0.value.hubs) }.value
                    let answer = try? hubs[turn % hubs.count].put("/n/k\(number).json", "\(number)")
                    guard let answer, answer.hasPrefix("HTTP/1.1 200") else {
                        turn += 1
                        usleep(5_000)
                        continue
                    }
                    state.withLock { [number] in $0.value.acknowledged.append(number) }
                    number += 1
                }
                state.withLock { $0.value.hasEnded = true }
            }.start()
        }

        var acknowledged: [Int] { state.withLock { $0.value.acknowledged } }
        func replace(_ hubs: [RunningHub]) {
            let hubs = UncheckedSendable(hubs)
            state.withLock { $0.value.hubs = hubs.value }
        }

        func end() -> [Int] {
            state.withLock { $0.value.mustEnd = true }
            while !state.withLock({ $0.value.hasEnded }) { usleep(1_000) }
            return acknowledged
        }
    }

    private func expect(_ acknowledged: [Int], on hubs: [RunningHub]) throws {
        #expect(try becomes { Set(try hubs.map(content)).count == 1 })
        let keys = Set(try Command.run("get", hubs[0].url + "/n", "--shallow").output.matches(of: /k([0-9]+)/).compactMap { Int($0.1) })
        #expect(Set(acknowledged).subtracting(keys).isEmpty && keys.count <= acknowledged.count + 1)
    }

    /// A second database is written and followed like the first one; none is created while the cluster runs.
    @Test func severalDatabases_areTheSameOnAllHubs() throws {
        let both = arguments + ["--data", "data", "--namespace", "one", "--namespace", "two"]
        let hubs = [try RunningHub(both), try RunningHub(both)]
        for (number, database) in ["one", "two"].enumerated() {
            for (from, to) in [(hubs[0], hubs[1]), (hubs[1], hubs[0])] {
                let place = "/\(from === hubs[0] ? "a" : "b")?ns=\(database)"
                #expect(try becomes { try set(from, place, "\(number)").code == 0 }, "\(from.error)")
                #expect(try becomes { try value(to, place) == "\(number)" })
            }
        }
        let created = try Command.run("database", "create", hubs[0].url, "three", "--auth", "owner")
        #expect(created.code == 1 && created.error.contains("In a cluster"), "\(created.error)")
        #expect(try Command.run("user", "add", hubs[0].url + "?ns=two", "--uid", "ana", "--no-password", "--auth", "owner").code == 0)
        #expect(try becomes { try Command.run("user", "list", hubs[1].url + "?ns=one", "--auth", "owner").output.contains("ana") })
    }

    @Test func hubs_haveOneWriter_andTheOthersAnswerReadsAndObservers() throws {
        let hubs = try (0..<2).map { _ in try RunningHub(arguments) }
        let writer = try writer(among: hubs)
        let follower = try #require(hubs.first { $0 !== writer })
        #expect(try set(writer, "/a", #"{"x":1}"#).code == 0)
        #expect(try becomes { try value(follower, "/a/x") == "1" })
        // A write at the follower can be read there immediately.
        #expect(try set(follower, "/a/z", "2").code == 0)
        #expect(try value(follower, "/a/z") == "2" && value(writer, "/a/z") == "2")
        // An observer at the follower gets the writer's next commit.
        let heard = Handover<Command.Result>()
        let url = follower.url
        Thread {
            if let result = try? Command.run("watch", url + "/a", "--events", "added", "--count", "3") { heard.put(result) }
        }.start()
        #expect(try becomes { try follower.page("/.metrics").contains("vigla_observers{namespace=\"default\"} 1") })
        #expect(try set(writer, "/a/y", #""new""#).code == 0)
        let told = heard.wait()
        #expect(told.code == 0 && told.output.contains("new"), "\(told)")
        let status = try Command.run("cluster", "status", follower.url, "--auth", "owner")
        #expect(status.code == 0 && hubs.allSatisfy { status.output.contains($0.url) } && !status.output.contains("none"), "\(status)")
        #expect(try follower.page("/.metrics").contains("vigla_cluster_hubs 2"))
        for hub in hubs { #expect(hub.stop() == 0) }
    }

    @Test func clientsOfAllHubs_addUpExactly_alsoWhenAFollowerIsKilled() throws {
        let hubs = try (0..<3).map { _ in try RunningHub(arguments) }
        let writer = try writer(among: hubs)
        #expect(try set(writer, "/sum", "0").code == 0)
        for hub in hubs { #expect(try becomes { try hub.put("/ready.json", "true").hasPrefix("HTTP/1.1 200") }) }
        let counts = Mutex(0)
        let done = DispatchGroup()
        for hub in hubs.map({ UncheckedSendable($0) }) {
            done.enter()
            Thread {
                for _ in 0..<40 {
                    let answer = try? hub.value.put("/sum.json", #"{".sv":{"increment":1}}"#)
                    if answer?.hasPrefix("HTTP/1.1 200") == true { counts.withLock { $0 += 1 } }
                }
                done.leave()
            }.start()
        }
        done.wait()
        #expect(counts.withLock { $0 } == 120)
        #expect(try becomes { try hubs.allSatisfy { try value($0, "/sum") == "120" } })
        let lost = try #require(hubs.first { $0 !== writer })
        _ = lost.stop(SIGKILL)
        let left = hubs.filter { $0 !== lost }
        for hub in left { #expect(try hub.put("/sum.json", #"{".sv":{"increment":1}}"#).hasPrefix("HTTP/1.1 200")) }
        #expect(try becomes { try left.allSatisfy { try value($0, "/sum") == "122" } })
        for hub in left { #expect(hub.stop() == 0) }
    }

    /// The writer is killed under load: another hub takes over, and all acknowledged writes are on every hub.
    @Test func writer_killedUnderLoad_isReplaced_andComesBackAsOneOfThem() throws {
        var hubs = try (0..<3).map { _ in try RunningHub(arguments) }
        let lost = try writer(among: hubs)
        let load = Load(hubs)
        #expect(becomes { load.acknowledged.count > 50 })
        let survivors = hubs.filter { $0 !== lost }
        let heard = Handover<Command.Result>()
        let url = survivors[0].url
        Thread {
            if let result = try? Command.run("watch", url + "/over", "--events", "value", "--count", "2") { heard.put(result) }
        }.start()
        _ = lost.stop(SIGKILL)
        load.replace(survivors)
        let before = load.acknowledged.count
        let next = try writer(among: survivors)
        #expect(becomes { load.acknowledged.count > before + 50 })
        #expect(try set(next, "/over", "true").code == 0)
        let told = heard.wait()
        #expect(told.code == 0 && told.output.contains("true"), "\(told)")
        hubs = survivors + [try RunningHub(arguments, folder: lost.folder)]
        load.replace(hubs)
        let again = load.acknowledged.count
        #expect(becomes { load.acknowledged.count > again + 50 })
        try expect(load.end(), on: hubs)
        for hub in hubs { #expect(hub.stop() == 0) }
    }

    @Test func writer_stoppedPastItsReplacement_followsByItself_withTheSameContent() throws {
        let hubs = try (0..<2).map { _ in try RunningHub(arguments) }
        let stopped = try writer(among: hubs)
        let other = try #require(hubs.first { $0 !== stopped })
        #expect(try set(stopped, "/a", "1").code == 0)
        kill(stopped.process.processIdentifier, SIGSTOP)
        _ = try writer(among: [other])
        for i in 2...6 { #expect(try set(other, "/a", "\(i)").code == 0) }
        kill(stopped.process.processIdentifier, SIGCONT)
        // A request at that moment is refused, or accepted once the hub is the writer again: no answer is wrong.
        _ = try set(stopped, "/late", "true")
        #expect(becomes { role(stopped) == "following" || role(other) == "following" })
        #expect(try becomes { try content(stopped) == content(other) })
        #expect(try value(stopped, "/a") == "6")
        let writing = try writer(among: hubs)
        #expect(try set(writing, "/a", "7").code == 0)
        #expect(try becomes { try hubs.allSatisfy { try value($0, "/a") == "7" } })
        for hub in hubs { #expect(hub.stop() == 0) }
    }

    @Test func hub_thatEndsInOrder_handsOverWithoutALoss() throws {
        let hubs = try (0..<2).map { _ in try RunningHub(arguments) }
        let first = try writer(among: hubs)
        let load = Load(hubs)
        #expect(becomes { load.acknowledged.count > 50 })
        #expect(first.stop() == 0)
        let rest = hubs.filter { $0 !== first }
        load.replace(rest)
        let before = load.acknowledged.count
        #expect(becomes { load.acknowledged.count > before + 50 })
        try expect(load.end(), on: rest)
        for hub in rest { #expect(hub.stop() == 0) }
    }
}

/// For handles that are only read.
private struct UncheckedSendable<Value>: @unchecked Sendable {
    // Sendable: the value is only read.
    var value: Value
    init(_ value: Value) { self.value = value }
}

extension RunningHub {
    /// The hub's complete answer to a PUT by an administrator.
    fileprivate func put(_ target: String, _ body: String) throws -> String {
        let connection = try connection()
        try connection.write(contentsOf: Data((
            "PUT \(target) HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer owner\r\nConnection: close\r\n"
                + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)").utf8))
        return String(decoding: try connection.readToEnd() ?? Data(), as: UTF8.self)
    }
}
#endif

@Suite(.timeLimit(.minutes(30))) struct ClusterOptionTests {
    @Test func faultyOptions_areReported() throws {
        let folder = try TemporaryFolder()
        let alone = try Command.run("serve", "--cluster-name", "a b", "--cluster-address", "http://x", in: folder.url)
        #expect(alone.code == 78)
        for text in ["--cluster-name: \"a b\" is not 1–32 letters", "--cluster-address: there is no --cluster"] {
            #expect(alone.error.contains(text), "\(alone.error)")
        }
        let mixed = try Command.run("serve", "--cluster", "nats://x,tls://y", in: folder.url)
        #expect(mixed.code == 78 && mixed.error.contains("all alike"), "\(mixed.error)")
        let plain = try Command.run("serve", "--cluster", "nats://x", "--cluster-ca", "ca.pem", "--cluster-key", "my.key", in: folder.url)
        for text in ["--cluster-ca: the servers are named by nats://", "--cluster-key: a certificate and its key belong together"] {
            #expect(plain.code == 78 && plain.error.contains(text), "\(plain.error)")
        }
        let memory = try Command.run("serve", "--memory", "--cluster", "http://x", in: folder.url)
        #expect(memory.code == 78 && memory.error.contains("is not addresses nats://host:port"))
        #if VIGLA_CLUSTER
        #expect(memory.error.contains("keeps its data in a folder"))
        #else
        #expect(memory.error.contains("libnats-dev"))
        #endif
    }

    @Test func secretsOfTheServers_areNotShown() throws {
        let folder = try TemporaryFolder()
        for text in ["nats://hub:se:cret@one,nats://token-secret@two:4222", "http://hub:secret@one"] {
            let shown = try Command.run("serve", "--cluster", text, "--print-config", in: folder.url)
            #expect((shown.output + shown.error).contains("://…@one") && !(shown.output + shown.error).contains("cret"), "\(shown)")
        }
    }
}
