import Foundation
import JSONTree
import Testing
import TestSupport

/// The program is killed while it stores a large write in slices: the next start finds all of it or nothing, and every write acknowledged meanwhile.
@Suite(.timeLimit(.minutes(30))) struct SliceCrashTests {
    /// About 5 MB: five slices.
    private static let large = "{"
        + (0..<500).map { "\"k\($0)\":{\"n\":\($0),\"text\":\"\(String(repeating: "x", count: 10_000))\"}" }.joined(separator: ",") + "}"

    @Test(
        arguments: ["batch.slice:1", "batch.slice:3", "batch.seal.before", nil]
    ) func kill9_betweenSlices_leavesAllOrNothing(point: String?) throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", #"{"rules":{".read":true,".write":true}}"#)
        let arguments = ["--port", "0", "--data", "data", "--rules", rules, "--log-level", "error"]
        let hub = try RunningHub(arguments, environment: point.map { ["VIGLA_FAULT": $0] } ?? [:], folder: folder)
        let (writer, other) = (try RealtimeSocket(url: hub.url), try RealtimeSocket(url: hub.url))
        #expect(try writer.ask("p", "/kept", ",\"d\":1").status == "ok")
        let number = try writer.send("p", "/large", ",\"d\":\(Self.large)")
        var answered = false
        if point == nil {
            // At any moment: the hub is sent another write and killed immediately.
            _ = try other.send("p", "/kept", ",\"d\":1")
            usleep(UInt32.random(in: 0...300_000))
            #expect(hub.stop(SIGKILL) == SIGKILL)
            while let answer = try? writer.answer() { if answer.number == number { answered = true } }
        } else {
            #expect(throws: RealtimeSocket.Lost.self) { _ = try writer.answer() }
            hub.process.waitUntilExit()
            #expect(hub.process.terminationStatus == SIGKILL, "\(hub.error)")
        }
        for _ in 0..<2 {
            let next = try RunningHub(arguments, folder: folder)
            let socket = try RealtimeSocket(url: next.url)
            let keys = try socket.ask("g", "/large").value.childCount
            #expect(keys == 0 && !answered || keys == 500 && point == nil, "\(keys)")
            #expect(try socket.ask("g", "/kept").value == 1)
            #expect(try socket.ask("p", "/kept", ",\"d\":1").status == "ok")
            #expect(next.stop(SIGKILL) == SIGKILL)
        }
        // Without a kill it is stored completely.
        let last = try RunningHub(arguments, folder: folder)
        let socket = try RealtimeSocket(url: last.url)
        #expect(try socket.ask("p", "/large", ",\"d\":\(Self.large)").status == "ok")
        #expect(last.stop(SIGKILL) == SIGKILL)
        let again = try RunningHub(arguments, folder: folder)
        let found = try RealtimeSocket(url: again.url).ask("g", "/large").value
        #expect(again.stop() == 0)
        #expect(found == (try Node(json: Self.large)))
    }

    /// Others commit in the same namespace between the slices. None of their acknowledged writes is lost, and the large write is stored completely or
    /// not at all.
    @Test(
        arguments: ["batch.slice:2", "batch.slice:5", "batch.seal.before", nil]
    ) func kill9_whileALargeWriteIsStaged_losesNoneOfWhatOthersCommitMeanwhile(point: String?) throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", #"{"rules":{".read":true,".write":true}}"#)
        let arguments = ["--port", "0", "--data", "data", "--rules", rules, "--log-level", "error"]
        let hub = try RunningHub(arguments, environment: point.map { ["VIGLA_FAULT": $0] } ?? [:], folder: folder)
        let (writer, other) = (try RealtimeSocket(url: hub.url), try RealtimeSocket(url: hub.url))
        let large = try writer.send("p", "/large", ",\"d\":\(Self.large)")
        var (told, isTold) = (0, false)
        let rounds = point == nil ? Int.random(in: 1...60) : 100_000
        do {
            while told < rounds {
                #expect(try other.ask("p", "/count", ",\"d\":\(told + 1)").status == "ok")
                told += 1
            }
            #expect(hub.stop(SIGKILL) == SIGKILL)
            while let answer = try? writer.answer() { if answer.number == large { isTold = true } }
        } catch is RealtimeSocket.Lost {
            hub.process.waitUntilExit()
            #expect(hub.process.terminationStatus == SIGKILL, "\(hub.error)")
        }
        #expect(point == nil || told < rounds)
        let next = try RunningHub(arguments, folder: folder)
        let socket = try RealtimeSocket(url: next.url)
        let count = try socket.ask("g", "/count").value.leaf
        #expect(count == .int(Int64(told)) || count == .int(Int64(told + 1)) || told == 0 && count == .null, "\(told) \(count)")
        let keys = try socket.ask("g", "/large").value.childCount
        #expect(keys == 0 && !isTold || keys == 500 && point == nil, "\(keys)")
        #expect(next.stop() == 0)
    }
}
