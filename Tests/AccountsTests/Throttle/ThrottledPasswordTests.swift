import Foundation
import HTTPTypes
import JSONTree
import Synchronization
import Testing
import TestSupport

@testable import Accounts

/// Throttling in the service, over its store.
@Suite(.timeLimit(.minutes(30))) struct ThrottledPasswordTests {
    private func service(folder: String?, _ clock: FakeClock = FakeClock()) throws -> AccountService {
        var settings = AccountSettings()
        settings.passwords = .quick
        return try AccountService(settings, folder: folder, logger: .silent, scheduler: clock.scheduler)
    }

    private func attempt(_ service: AccountService, _ password: String, _ stored: String?) async -> String {
        do throws(AccountError) {
            return "\(try await service.checkPassword(password, of: "ana", stored: stored, peer: "192.0.2.1"))"
        } catch {
            return error.message
        }
    }

    @Test func check25_rightPassword_isRefused_afterTooManyWrong_untilReset() async throws {
        let service = try service(folder: nil)
        let stored = try await service.passwords.hash("correct horse")
        for _ in 0..<5 { #expect(await attempt(service, "wrong", stored) == "wrong") }
        #expect(await attempt(service, "correct horse", stored) == "TOO_MANY_ATTEMPTS_TRY_LATER : Try again in 1 s")
        await service.liftThrottle(of: "ana")
        #expect(await attempt(service, "correct horse", stored) == "right")
        for _ in 0..<4 { #expect(await attempt(service, "wrong", stored) == "wrong") }
        #expect(await attempt(service, "correct horse", stored) == "right")
        for _ in 0..<5 { #expect(await attempt(service, "wrong", stored) == "wrong") }
        try await service.close()
    }

    @Test func check25_unknownAndKnown_areCountedAlike() async throws {
        let service = try service(folder: nil)
        let stored = try await service.passwords.hash("correct horse")
        let known = try await withAttempts(7) { await attempt(service, "wrong", stored) }
        await service.liftThrottle(of: "ana")
        #expect(try await withAttempts(7) { await attempt(service, "wrong", nil) } == known)
        try await service.close()
    }

    private func withAttempts(_ count: Int, _ attempt: () async -> String) async throws -> [String] {
        var out: [String] = []
        for _ in 0..<count { out.append(await attempt()) }
        return out
    }

    @Test func check26_counts_areThereAfterARestart() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("vigla-throttle-\(UUID())").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let clock = FakeClock()
        var service = try service(folder: folder, clock)
        for _ in 0..<5 { #expect(await attempt(service, "wrong", nil) == "wrong") }
        try await service.close()
        service = try self.service(folder: folder, clock)
        #expect(await attempt(service, "wrong", nil).hasPrefix("TOO_MANY_ATTEMPTS_TRY_LATER : "))
        clock.advance(seconds: 1)
        #expect(await attempt(service, "wrong", nil) == "wrong")
        try await service.close()
    }

    /// Written together, a second after the first; a crash loses at most that.
    @Test func counts_areWrittenDown_onceASecond() async throws {
        let clock = FakeClock()
        let service = try service(folder: nil, clock)
        func written() async throws -> Int { try await service.stored { try $0.throttleRows().count } }
        for i in 0..<5 { try await service.admitSignUp(from: "192.0.2.\(i)") }
        clock.advance(ms: 999)
        #expect(try await written() == 0)
        clock.advance(ms: 1)
        #expect(try await written() == 5)
        try await service.admitSignUp(from: "192.0.2.9")
        clock.advance(ms: 1_000)
        #expect(try await written() == 6)
        try await service.close()
    }

    @Test func newPasswords_areCountedLikeGuesses() async throws {
        let bench = try AccountBench {
            $0.throttle = ThrottleSettings()
            $0.throttle.passwordsOfAddress = .init(3, perMs: 3_000)
        }
        var made = try await bench.signUp("ana@x.org")
        func set(_ password: String) async throws -> Reply {
            try await bench.call("update", ["idToken": made["idToken"] ?? .null, "password": .string(password), "returnSecureToken": true])
        }
        for password in ["one password", "two passwords"] {
            let reply = try await set(password)
            #expect(reply.status == 200, "\(reply.text)")
            made = reply
        }
        #expect(try await set("three passwords").error == "TOO_MANY_ATTEMPTS_TRY_LATER : Try again in 1 s")
        #expect(try await bench.signIn("ana@x.org", "two passwords").error == "TOO_MANY_ATTEMPTS_TRY_LATER : Try again in 1 s")
        bench.clock.advance(seconds: 1)
        #expect(try await bench.signIn("ana@x.org", "two passwords").status == 200)
    }

    @Test func administratorsNewPassword_liftsTheWait() async throws {
        let bench = try AccountBench { $0.throttle = ThrottleSettings() }
        let made = try await bench.signUp("ana@x.org")
        for _ in 0..<5 { #expect(try await bench.signIn("ana@x.org", "wrong").error != nil) }
        #expect(try await bench.signIn("ana@x.org").error?.hasPrefix("TOO_MANY_ATTEMPTS_TRY_LATER") == true)
        let reply = try await bench.ask(
            "identitytoolkit.googleapis.com/v1/projects/demo-app/accounts:update",
            ["localId": made["localId"] ?? .null, "password": "another horse"], key: false,
            fields: [.authorization: "Bearer \(AccountBench.administrator)"])
        #expect(reply.status == 200, "\(reply.text)")
        #expect(try await bench.signIn("ana@x.org", "another horse").status == 200)
    }

    @Test func limits_ofSignUpsMailsAndCodes_areErrorsOfTheirRequest() async throws {
        let service = try service(folder: nil)
        for _ in 0..<100 { try await service.admitSignUp(from: "192.0.2.1") }
        await #expect(throws: AccountError("TOO_MANY_ATTEMPTS_TRY_LATER", "Try again in 36 s")) {
            try await service.admitSignUp(from: "192.0.2.1")
        }
        for _ in 0..<5 { try await service.admitMail(to: "ana@x.org", from: "192.0.2.1") }
        await #expect(throws: AccountError("TOO_MANY_ATTEMPTS_TRY_LATER", "Try again in 12 min")) {
            try await service.admitMail(to: "ana@x.org", from: "192.0.2.1")
        }
        for _ in 0..<10 { try await service.admitCode(from: "192.0.2.1") }
        await #expect(throws: AccountError.self) { try await service.admitCode(from: "192.0.2.1") }
        try await service.close()
    }
}
