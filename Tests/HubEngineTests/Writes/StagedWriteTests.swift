import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import TestSupport
import Testing

/// Large writes that the log stores before they are applied.
@Suite(.timeLimit(.minutes(30))) struct StagedWriteTests {
    /// Commits immediately; completes stages on the test's command.
    private final class StagingLog: Journal {
        typealias Done = @Sendable (Result<JournalStage, JournalError>) -> Void

        struct State {
            var waiting: [(operations: [JournalOperation], done: Done)] = []
            var asked = 0
            var live = 0
            /// Places of each commit, and whether the log already stored them.
            var commits: [(paths: [Path], isStaged: Bool)] = []
            var stages: [Int64: [Path]] = [:]
            var refusal: JournalError?
        }
        let state = Mutex(State())
        var isImmediate: Bool { false }
        var stagedBytes: Int { 1_000 }

        func append(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
            let refusal = state.withLock { state in
                for commit in batch.commits where state.refusal == nil {
                    let stage = batch.staged.first { $0.range == commit.operations.indices }?.stage
                    let paths = commit.operations.compactMap(\.path)
                    state.commits.append((paths, stage.map { state.stages[$0.number] == paths } ?? false))
                }
                return state.refusal
            }
            completion(refusal.map { .failure($0) } ?? .success(()))
        }

        func stage(_ operations: [JournalOperation], completion: @escaping Done) {
            state.withLock { state in
                state.waiting.append((operations, completion))
                state.asked += 1
            }
        }

        /// Completes the oldest stage.
        func complete(_ refusal: JournalError? = nil) {
            let (number, done) = state.withLock { state in
                state.live += refusal == nil ? 1 : 0
                let (operations, done) = state.waiting.removeFirst()
                let number = Int64(state.stages.count + 1)
                state.stages[number] = operations.compactMap(\.path)
                return (number, done)
            }
            if let refusal { return done(.failure(refusal)) }
            done(.success(JournalStage(number: number, parts: 1, bytes: 1) { [weak self] _ in self?.state.withLock { $0.live -= 1 } }))
        }

        var waiting: Int { state.withLock { $0.waiting.count } }
        var asked: Int { state.withLock { $0.asked } }
        var live: Int { state.withLock { $0.live } }
        var commits: [String] {
            state.withLock { state in
                state.commits.map { "\($0.paths.map(\.description).joined(separator: ","))\($0.isStaged ? " staged" : "")" }
            }
        }
    }

    private let log = StagingLog()
    private static let three = Request.merge(["a/x": 1, "a/y": 2, "a/z": 3])
    private static let open = #"{"rules":{"a":{".write":"root.child('open').val() == true"},"open":{".write":true},"b":{".write":true}}}"#

    /// Requests a large write and prepares it.
    private func begin(_ it: GatedHarness, _ request: Request = three, size: Int = 1_000) -> Client {
        let client = Client.make()
        it.hub.database.submit(request, from: client, size: size)
        it.finish()
        return client
    }

    @Test func largeWrite_isStagedFirst_whileOthersCommit() throws {
        let it = try GatedHarness(log: log)
        let one = begin(it)
        #expect(log.waiting == 1 && log.commits == [])
        #expect(it.ask(.make(), .put("b", 5)) == ["ok 0"])
        #expect(log.commits == ["/b"] && it.hub.take(one) == [])
        log.complete()
        it.finish()
        #expect(it.hub.take(one) == ["ok 0"])
        #expect(log.commits.count == 2 && log.commits[1].hasSuffix(" staged") && log.asked == 1)
        #expect(it.content == ["a": ["x": 1, "y": 2, "z": 3], "b": 5])
        it.finish()
        #expect(log.live == 0)
    }

    @Test func bytes_letAWriteBeStaged_fromTheLogsSettingOn() throws {
        let it = try GatedHarness(log: log)
        let one = begin(it, size: 999)
        #expect(log.asked == 0 && it.hub.take(one) == ["ok 0"])
        _ = begin(it, size: 1_000)
        #expect(log.asked == 1)
    }

    @Test func deniedWrite_isNotStaged() throws {
        let it = try GatedHarness(Self.open, log: log)
        let one = begin(it)
        #expect(log.asked == 0 && it.hub.take(one) == ["error 0 permission_denied"])
    }

    @Test func stageThatTheLogRefuses_refusesThatWriteOnly() throws {
        let it = try GatedHarness(log: log)
        let one = begin(it)
        log.complete(.diskFull(reason: "test"))
        it.finish()
        #expect(it.hub.take(one) == ["error 0 unavailable"])
        #expect(it.ask(.make(), .put("b", 5)) == ["ok 0"])
        #expect(it.content == ["b": 5] && it.hub.database.counters.refusal == nil)
    }

    @Test func overtakenWrite_keepsItsStage_whenItWritesTheSame() throws {
        let it = try GatedHarness(Self.open, root: ["open": true], log: log)
        let one = begin(it)
        it.hub.database.replace(try RuleSet(parsing: Self.open))
        log.complete()
        it.finish()
        #expect(it.hub.take(one) == ["ok 0"])
        #expect(log.asked == 1 && log.commits.last?.hasSuffix(" staged") == true && it.hub.database.counters.preparedAgain == 1)
        it.finish()
        #expect(log.live == 0)
    }

    @Test func overtakenWrite_withValuesOfTheServer_isStagedAnew() throws {
        let it = try GatedHarness(root: ["n": ["a": 1, "b": 1, "c": 1]], log: log)
        let one = begin(it, .increments(["n/a", "n/b", "n/c"]))
        _ = it.ask(.make(), .increments(["n/b"]))
        log.complete()
        it.finish()
        #expect(log.asked == 2 && log.live == 0 && it.hub.take(one) == [])
        log.complete()
        it.finish()
        #expect(it.hub.take(one) == ["ok 0"])
        #expect(it.content == ["n": ["a": 2, "b": 3, "c": 2]])
        it.finish()
        #expect(log.live == 0)
    }

    @Test func writeThatIsDeniedInTheEnd_letsGoOfItsStage() throws {
        let it = try GatedHarness(Self.open, root: ["open": true], log: log)
        let one = begin(it)
        _ = it.ask(.make(), .put("open", false))
        log.complete()
        it.finish()
        #expect(it.hub.take(one) == ["error 0 permission_denied"])
        it.finish()
        #expect(log.live == 0 && log.commits == ["/open"])
    }

    @Test func logThatRefusesMeanwhile_refusesTheWrite_andLetsGoOfItsStage() throws {
        let it = try GatedHarness(log: log)
        let one = begin(it)
        log.state.withLock { $0.refusal = .diskFull(reason: "test") }
        #expect(it.ask(.make(), .put("b", 5)) == ["error 0 unavailable"])
        it.finish()
        #expect(it.hub.take(one) == ["error 0 unavailable"])
        log.complete()
        it.finish()
        #expect(log.live == 0 && it.hub.take(one) == [])
    }
}
