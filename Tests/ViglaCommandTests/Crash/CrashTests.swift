import Foundation
import Glibc
import JSONTree
import Synchronization
import Testing
import TestSupport

/// The program is killed repeatedly while several clients write: at random moments, and at every step of a commit and of a snapshot.
/// After each kill it is restarted on its data, and:
///
/// * every acknowledged write is stored, and the disconnect writes of lost clients were written once;
/// * of the unanswered writes a prefix is stored, each of them completely, and the others not at all;
/// * no refused write is stored, and nothing else.
///
/// `VIGLA_CRASH_ROUNDS` sets the number of rounds, `VIGLA_CRASH_PROGRAM` another build of the program. Fault points exist in debug builds only
/// (`Sources/SQLiteJournal/Store/FaultPoint.swift`); other builds are killed at random only.
@Suite(.timeLimit(.minutes(30))) struct CrashTests {
    private static let rules = #"{"rules":{".read":true,"w":{".write":true,"$writer":{"bad":{".validate":false}}}}}"#
    /// Killed while it serves, or while it stops and creates a snapshot.
    private static let points = [nil, "commit.before", "commit.after", nil, "checkpoint"]
    private static let pointsAtStop = [
        nil, "snapshot.chunk", "snapshot.switch.before", "snapshot.switch.after", "truncate", "commit.before", "commit.after",
    ]

    @Test func kill9_losesNothingAcknowledged_andLeavesNothingHalf() throws {
        let environment = ProcessInfo.processInfo.environment
        let rounds = environment["VIGLA_CRASH_ROUNDS"].flatMap { Int($0) } ?? 14
        let program = environment["VIGLA_CRASH_PROGRAM"] ?? "vigla"
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", Self.rules)
        let writers = (0..<4).map { CrashWriter($0) }
        var stored = 0
        var lost = 0
        var (atPoint, atStart, atStop) = (0, 0, 0)
        func start(_ fault: String?) throws -> RunningHub {
            try RunningHub(
                ["--port", "0", "--data", "data", "--rules", rules, "--log-level", "error"],
                environment: fault.map { ["VIGLA_FAULT": $0] } ?? [:],
                folder: folder, program: program)
        }
        /// A start may reach its fault point while it runs disconnect writes: the next start must still find everything.
        func look(_ point: String?) throws -> (hub: RunningHub, content: Node) {
            if let point {
                if let hub = try? start(point) {
                    if let content = try? RealtimeSocket(url: hub.url).ask("g", "/").value { return (hub, content) }
                    hub.process.waitUntilExit()
                    #expect(hub.process.terminationStatus == SIGKILL, "\(hub.error)")
                }
                atStart += 1
            }
            let hub = try start(nil)
            return (hub, try RealtimeSocket(url: hub.url).ask("g", "/").value)
        }
        for round in 0..<rounds {
            let point = Self.points[round % Self.points.count]
            let hub = try point.map { point in try? start("\(point):\(Int.random(in: 1...20))") } ?? start(nil)
            if let hub {
                // Killed after this many answers, unless the fault point comes first.
                if try !kill(hub, while: writers, after: point == nil ? Int.random(in: 1...400) : 600) { atPoint += 1 }
            } else {
                atStart += 1
            }
            for writer in writers { if let fault = writer.fault { Issue.record("round \(round): writer \(writer.number): \(fault)") } }

            let pointAtStop = Self.pointsAtStop[round % Self.pointsAtStop.count]
            let (next, found) = try look(pointAtStop)
            var expected = Node.null
            for writer in writers {
                let place: Path = Path([Key("w"), Key("\(writer.number)")])
                let open = writer.underWay.count
                guard let kept = writer.settle(on: found.node(at: place)) else {
                    let both = "found \(found.node(at: place).json), \(writer.expectation)"
                    Issue.record("round \(round), \(point ?? "random"), writer \(writer.number): \(both)")
                    return
                }
                stored += kept
                lost += open - kept
                expected.set(found.node(at: place), at: place)
            }
            #expect(found.json == expected.json && found.hash == expected.hash, "something else is there")
            // The next round checks the result of this one.
            let code = next.stop(pointAtStop == nil && round % 2 == 0 ? SIGKILL : SIGTERM)
            #expect(code == 0 || code == SIGKILL, "\(next.error)")
            if code == SIGKILL, pointAtStop != nil { atStop += 1 }
        }
        let (answered, refused) = (writers.reduce(0) { $0 + $1.acknowledged }, writers.reduce(0) { $0 + $1.refused })
        print("crash test: \(rounds) rounds, \(atPoint) of them ended by a fault point, \(atStart) starts and \(atStop) stops, too; "
            + "\(answered) answers, of them \(refused) refusals, in \(writers.reduce(0) { $0 + $1.sessions }) sessions; of those under way "
            + "\(stored) stored, \(lost) not")
        #expect(answered > rounds && refused > 0)
    }

    /// Lets the writers write until the hub is dead.
    /// - Returns: true if it was killed by the test, false if by its fault point.
    private func kill(_ hub: RunningHub, while writers: [CrashWriter], after most: Int) throws -> Bool {
        let answers = Atomic<Int>(0)
        let isKilled = Atomic<Bool>(false)
        let (url, process, group) = (hub.url, hub.process.processIdentifier, DispatchGroup())
        for writer in writers {
            group.enter()
            let thread = Thread {
                writer.run(url: url) {
                    guard answers.add(1, ordering: .relaxed).newValue == most else { return }
                    isKilled.store(true, ordering: .relaxed)
                    // At any moment, not only when answers are sent.
                    usleep(UInt32.random(in: 0...2_000))
                    Glibc.kill(process, SIGKILL)
                }
                group.leave()
            }
            thread.start()
        }
        group.wait()
        // Writers that gave up do not keep it alive.
        if hub.process.isRunning { Glibc.kill(process, SIGKILL) }
        hub.process.waitUntilExit()
        #expect(hub.process.wasKilled && hub.process.terminationStatus == SIGKILL, "\(hub.error)")
        return isKilled.load(ordering: .relaxed)
    }
}
