import HTTPTypes
import JSONTree
import Testing
import TestSupport

@testable import Accounts

/// A deletion is answered once the account's data is removed.
@Suite(.timeLimit(.minutes(30))) struct RemovalWaitTests {
    /// A service whose data the test removes.
    private func bench() throws -> AccountBench {
        let bench = try AccountBench()
        bench.service.whenChanged(removesData: true) { [changes = bench.changes] in changes.add($0) }
        return bench
    }

    private func waits(_ bench: AccountBench, for uid: String) async -> Bool {
        for _ in 0..<200_000 {
            if await bench.service.waitedFor().contains(uid) { return true }
            await Task.yield()
        }
        return false
    }

    private func deletion(_ bench: AccountBench, _ way: String, _ made: Reply) async throws -> Reply {
        switch way {
        case "user": try await bench.call("delete", ["idToken": made["idToken"] ?? .null])
        case "administrator": try await bench.administer("delete", ["localId": made["localId"] ?? .null])
        default:
            try await bench.ask(
                "\(AccountBench.v1)/projects/demo-app/accounts:batchDelete", ["localIds": [made["localId"] ?? .null], "force": true],
                key: false, fields: [.authorization: "Bearer \(AccountBench.administrator)"])
        }
    }

    @Test(arguments: ["user", "administrator", "batch"]) func deletion_isAnswered_behindTheData(way: String) async throws {
        let bench = try bench()
        let made = try await bench.signUp("ana@x.org")
        let uid = try #require(made["localId"]?.string)
        let answered = Collected<Int>()
        async let reply = {
            let reply = try await deletion(bench, way, made)
            answered.add(reply.status)
            return reply
        }()
        #expect(await waits(bench, for: uid))
        #expect(bench.changes.all.map(\.kind) == [.deleted] && answered.all.isEmpty)
        await bench.service.removalDone(uid)
        #expect(try await reply.status == 200)
        #expect(await bench.service.waitedFor().isEmpty)
    }

    /// The body is not JSON, because an SDK would act on it. A repeated request waits for the rest.
    @Test func deletion_whoseDataStays_isNoSuccess() async throws {
        let bench = try bench()
        let made = try await bench.signUp("ana@x.org")
        let uid = try #require(made["localId"]?.string)
        async let reply = deletion(bench, "user", made)
        #expect(await waits(bench, for: uid))
        bench.clock.advance(ms: bench.service.settings.removalWaitMs)
        let first = try await reply
        #expect(first.status == 503 && first.body == nil && first.text.contains("removal of its data"), "\(first.text)")
        #expect(try await bench.signIn("ana@x.org").status == 400, "the account itself is gone")
        async let again = deletion(bench, "administrator", made)
        #expect(await waits(bench, for: uid))
        await bench.service.removalDone(uid)
        #expect(try await again.status == 200)
        #expect(try await deletion(bench, "administrator", made).error == "USER_NOT_FOUND")
    }

    @Test func hubThatStops_endsTheWait() async throws {
        let bench = try bench()
        let made = try await bench.signUp("ana@x.org")
        async let reply = deletion(bench, "user", made)
        #expect(await waits(bench, for: try #require(made["localId"]?.string)))
        try await bench.service.close()
        #expect(try await reply.status == 503)
    }
}

extension AccountService {
    fileprivate func waitedFor() -> [String] { removals.uids }
}
