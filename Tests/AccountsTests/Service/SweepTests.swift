import JSONTree
import Testing
import TestSupport

@testable import Accounts

@Suite(.timeLimit(.minutes(30))) struct SweepTests {
    private static let day: Int64 = 86_400

    @Test func endedSessions_areReportedAsEnded_forTheirDays() async throws {
        let bench = try AccountBench { $0.endedSessionDays = 10 }
        let old = try await bench.signUp("ana@x.org")
        _ = try await bench.call("update", ["idToken": old["idToken"] ?? .null, "validSince": "1"])
        let gone = try await bench.signUp("bob@x.org")
        _ = try await bench.call("delete", ["idToken": gone["idToken"] ?? .null])
        bench.clock.advance(seconds: 10 * Self.day)
        await bench.service.sweep()
        #expect(try await bench.refresh(old["refreshToken"]?.string).error == "TOKEN_EXPIRED")
        #expect(try await bench.refresh(gone["refreshToken"]?.string).error == "USER_NOT_FOUND")
        bench.clock.advance(seconds: 1)
        await bench.service.sweep()
        for reply in [old, gone] { #expect(try await bench.refresh(reply["refreshToken"]?.string).error == "INVALID_REFRESH_TOKEN") }
    }

    /// Ten minutes after the start and then once a day, in many small steps, only by elapsed time.
    @Test func sweeps_comeByThemselves() async throws {
        let bench = try AccountBench { ($0.guestDays, $0.auditDays) = (3, 2) }
        let guest = try #require(try await bench.signUp()["localId"]?.string)
        let old = bench.clock.ms - 3 * Self.day * 1000
        func add(_ count: Int) async throws {
            try await bench.service.step { service in
                try service.store.transaction { transaction in
                    for _ in 0..<count { try transaction.audit(.signInFailed, "u", peer: nil, at: old) }
                }
            }
        }
        func left() async throws -> Int { try await bench.service.stored { try $0.audit(of: "u", limit: 9_999).count } }
        try await add(2 * AccountService.eventsAtOnce + 5)
        bench.clock.advance(seconds: 599)
        #expect(try await left() == 2 * AccountService.eventsAtOnce + 5)
        bench.clock.advance(seconds: 1)
        #expect(bench.changes.all.isEmpty)
        bench.clock.advance(seconds: 3 * Self.day)
        #expect(try await left() == 0)
        #expect(bench.changes.all == [AccountChange(guest, .deleted)])
        #expect(bench.clock.waiting == 1)
        try await bench.service.close()
        bench.clock.advance(seconds: Self.day)
        #expect(bench.clock.waiting == 0)
    }

    @Test func codes_areKept_aDayAfterTheirEnd() async throws {
        let bench = try AccountBench()
        _ = try await bench.signUp("ana@x.org")
        let code = try await bench.code("PASSWORD_RESET", "ana@x.org")
        bench.clock.advance(seconds: 3600 + Self.day)
        await bench.service.sweep()
        #expect(try await bench.call("resetPassword", ["oobCode": .string(code)]).error == "EXPIRED_OOB_CODE")
        bench.clock.advance(seconds: 1)
        await bench.service.sweep()
        #expect(try await bench.call("resetPassword", ["oobCode": .string(code)]).error == "INVALID_OOB_CODE")
    }

    @Test func guestsWhoStayAway_areDeleted_andNobodyElse() async throws {
        let bench = try AccountBench { $0.guestDays = 30 }
        let (away, back, user) = (try await bench.signUp(), try await bench.signUp(), try await bench.signUp("ana@x.org"))
        bench.clock.advance(seconds: 20 * Self.day)
        #expect(try await bench.refresh(back["refreshToken"]?.string).status == 200)
        bench.clock.advance(seconds: 10 * Self.day)
        await bench.service.sweep()
        #expect(bench.changes.all.isEmpty)
        bench.clock.advance(seconds: 1)
        await bench.service.sweep()
        #expect(bench.changes.all == [AccountChange(try #require(away["localId"]?.string), .deleted)])
        for kept in [back, user] { #expect(try await bench.refresh(kept["refreshToken"]?.string).status == 200) }
    }

    @Test func events_areRemovedInPieces() async throws {
        let bench = try AccountBench { $0.auditDays = 5 }
        let old = bench.clock.ms
        func add(_ count: Int, at time: Int64) async throws {
            try await bench.service.step { service in
                try service.store.transaction { transaction in
                    for _ in 0..<count { try transaction.audit(.signInFailed, "u", peer: nil, at: time) }
                }
            }
        }
        func left() async throws -> Int { try await bench.service.stored { try $0.audit(of: "u", limit: 9_999).count } }
        try await add(2 * AccountService.eventsAtOnce + 5, at: old)
        try await add(7, at: old + 1)
        bench.clock.advance(seconds: 5 * Self.day)
        let mayBeMore = try await bench.service.step { service in
            try service.store.transaction { try $0.removeAudit(before: old + 1, limit: AccountService.eventsAtOnce) }
        }
        #expect(mayBeMore)
        #expect(try await left() == AccountService.eventsAtOnce + 12)
        try await bench.service.step { service in
            // The removals of one sweep that runs a millisecond after the first events expire.
            while try service.store.transaction(.onDisk, { try $0.removeAudit(before: old + 1, limit: AccountService.eventsAtOnce) }) {}
        }
        #expect(try await left() == 7)
        bench.clock.advance(seconds: 1)
        try await add(AccountService.eventsAtOnce, at: bench.clock.ms)
        await bench.service.sweep()
        #expect(try await left() == AccountService.eventsAtOnce)
    }

    @Test func events_areKeptForTheirDays() async throws {
        let bench = try AccountBench { $0.auditDays = 5 }
        let uid = try #require(try await bench.signUp("ana@x.org")["localId"]?.string)
        bench.clock.advance(seconds: 5 * Self.day)
        await bench.service.sweep()
        #expect(try await bench.service.stored { try $0.audit(of: uid, limit: 9).count } == 1)
        bench.clock.advance(seconds: 1)
        await bench.service.sweep()
        #expect(try await bench.service.stored { try $0.audit(of: uid, limit: 9).count } == 0)
    }
}
