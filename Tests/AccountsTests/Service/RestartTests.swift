import Glibc
import JSONTree
import Testing
import TestSupport

@testable import Accounts

@Suite(.timeLimit(.minutes(30))) struct RestartTests {
    @Test func check26_accountsSessionsCodesAndThrottles_surviveARestart() async throws {
        let folder = "/tmp/vigla-restart-\(getpid())-\(UInt64.random(in: 0 ... .max))"
        mkdir(folder, 0o755)
        defer {
            for name in ["", "-wal", "-shm"] { unlink("\(folder)/accounts.sqlite\(name)") }
            rmdir(folder)
        }
        let clock = FakeClock()
        let before = try AccountBench(folder: folder, clock: clock) { $0.throttle.isOn = true }
        let made = try await before.signUp("ana@x.org")
        let code = try await before.code("PASSWORD_RESET", "ana@x.org")
        for _ in 0..<6 { _ = try await before.signIn("ana@x.org", "wrong") }
        #expect(try await before.signIn("ana@x.org").error?.hasPrefix("TOO_MANY_ATTEMPTS_TRY_LATER") == true)
        try await before.service.close()

        let after = try AccountBench(folder: folder, clock: clock) { $0.throttle.isOn = true }
        #expect(try await after.user(made)["localId"] == made["localId"])
        #expect(try await after.refresh(made["refreshToken"]?.string).status == 200)
        #expect(try await after.signIn("ana@x.org").error?.hasPrefix("TOO_MANY_ATTEMPTS_TRY_LATER") == true)
        #expect(try await after.call("resetPassword", ["oobCode": .string(code), "newPassword": "another horse"]).status == 200)
        #expect(try await after.signIn("ana@x.org", "another horse").status == 200)
        try await after.service.close()
    }
}
