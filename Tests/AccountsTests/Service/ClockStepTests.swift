import Glibc
import JSONTree
import Testing
import TestSupport

@testable import Accounts
@testable import Tokens

/// A wall clock is wrong for a while and then corrected, with the hub running throughout or restarted in between.
@Suite(.timeLimit(.minutes(30))) struct ClockStepTests {
    private static let day: Int64 = 86_400
    private static let year: Int64 = 365 * day

    /// A bench that can be closed and opened again.
    private final class Hub {
        let folder: String
        let clock: FakeClock
        private let configure: (inout AccountSettings) -> Void
        private(set) var bench: AccountBench

        init(startingAt ms: Int64 = FakeClock().ms, _ configure: @escaping (inout AccountSettings) -> Void = { _ in }) throws {
            clock = FakeClock(ms: ms)
            folder = "/tmp/vigla-clock-\(getpid())-\(UInt64.random(in: 0 ... .max))"
            mkdir(folder, 0o755)
            self.configure = configure
            bench = try AccountBench(folder: folder, clock: clock, configure)
        }

        deinit {
            for name in ["", "-wal", "-shm"] { unlink("\(folder)/accounts.sqlite\(name)") }
            rmdir(folder)
        }

        /// - Parameter restarts: whether the hub is restarted.
        func resume(_ restarts: Bool) async throws {
            guard restarts else { return }
            try await bench.service.close()
            try start()
        }

        func start() throws { bench = try AccountBench(folder: folder, clock: clock, configure) }
    }

    /// Ahead and behind by a day and by a year; with the hub running throughout, and restarted after the second step.
    private static let steps = [day, -day, year, -year].flatMap { step in [(step, false), (step, true)] }

    /// A sign-in while the clock is wrong does not block later ones of its network after the correction.
    @Test(arguments: steps) func signIns_goOn_afterAStep(_ step: Int64, _ restarts: Bool) async throws {
        let hub = try Hub { $0.throttle.isOn = true }
        let made = try await hub.bench.signUp("ana@x.org")
        hub.clock.step(seconds: step)
        #expect(try await hub.bench.signIn("ana@x.org", "wrong").error == "INVALID_PASSWORD")
        #expect(try await hub.bench.signIn("ana@x.org").status == 200)
        #expect(try await hub.bench.signIn("bob@x.org").error == "EMAIL_NOT_FOUND")
        hub.clock.step(seconds: -step)
        try await hub.resume(restarts)
        #expect(try await hub.bench.signIn("ana@x.org").status == 200)
        let late = try await hub.bench.signUp("eve@x.org")
        for reply in [made, late] {
            #expect(try await hub.bench.refresh(reply["refreshToken"]?.string).status == 200)
            #expect(try await hub.bench.user(reply)["localId"] == reply["localId"])
        }
    }

    /// Counted failures stay counted: an account's wait is neither extended nor forgotten.
    @Test(arguments: [day, -day, year, -year]) func wait_staysWhatItIs_whileTheClockSteps(_ step: Int64) async throws {
        let hub = try Hub { $0.throttle.isOn = true }
        _ = try await hub.bench.signUp("ana@x.org")
        for _ in 0..<5 { _ = try await hub.bench.signIn("ana@x.org", "wrong") }
        let wait = "TOO_MANY_ATTEMPTS_TRY_LATER : Try again in 1 s"
        #expect(try await hub.bench.signIn("ana@x.org").error == wait)
        hub.clock.step(seconds: step)
        #expect(try await hub.bench.signIn("ana@x.org").error == wait)
        hub.clock.step(seconds: -step)
        #expect(try await hub.bench.signIn("ana@x.org").error == wait)
        hub.clock.advance(seconds: 1)
        #expect(try await hub.bench.signIn("ana@x.org").status == 200)
    }

    /// A session that is refreshed, or started, while the clock is wrong continues when it is right.
    @Test(arguments: steps) func sessions_goOn_afterAStep(_ step: Int64, _ restarts: Bool) async throws {
        let hub = try Hub { $0.guestDays = 30 }
        let (user, guest) = (try await hub.bench.signUp("ana@x.org"), try await hub.bench.signUp())
        hub.clock.advance(seconds: 3600)
        hub.clock.step(seconds: step)
        var held: [Reply] = []
        for reply in [user, guest] {
            let refreshed = try await hub.bench.refresh(reply["refreshToken"]?.string)
            #expect(refreshed.status == 200, "\(refreshed.text)")
            #expect(try await hub.bench.call("lookup", ["idToken": refreshed["id_token"] ?? .null]).status == 200)
            held.append(refreshed)
        }
        let during = [try await hub.bench.signIn("ana@x.org"), try await hub.bench.signUp()]
        await hub.bench.service.sweep()
        hub.clock.step(seconds: -step)
        hub.clock.advance(seconds: Self.day)
        try await hub.resume(restarts)
        await hub.bench.service.sweep()
        for reply in [user, guest] + during {
            let refreshed = try await hub.bench.refresh(reply["refreshToken"]?.string)
            #expect(refreshed.status == 200, "\(refreshed.text)")
            #expect(try await hub.bench.call("lookup", ["idToken": refreshed["id_token"] ?? .null]).status == 200)
        }
        // A token issued while the clock was ahead is valid as long as its session: a clock error must not sign its user out.
        if step > 0 {
            for reply in held { #expect(try await hub.bench.call("lookup", ["idToken": reply["id_token"] ?? .null]).status == 200) }
        }
    }

    /// A revocation while the clock is wrong ends earlier sessions, and no later ones, with the clock right or wrong.
    @Test(arguments: steps) func revocation_endsWhatWasBefore_andNothingLater(_ step: Int64, _ restarts: Bool) async throws {
        let hub = try Hub()
        let before = try await hub.bench.signUp("ana@x.org")
        hub.clock.step(seconds: step)
        let during = try await hub.bench.signIn("ana@x.org")
        #expect(try await hub.bench.call("update", ["idToken": during["idToken"] ?? .null, "validSince": "1"]).status == 200)
        let later = [try await hub.bench.signIn("ana@x.org")]
        hub.clock.step(seconds: -step)
        try await hub.resume(restarts)
        for reply in later + [try await hub.bench.signIn("ana@x.org")] {
            let refreshed = try await hub.bench.refresh(reply["refreshToken"]?.string)
            #expect(refreshed.status == 200, "\(refreshed.text)")
            #expect(try await hub.bench.call("lookup", ["idToken": refreshed["id_token"] ?? .null]).status == 200)
        }
        for reply in [before, during] {
            #expect(try await hub.bench.refresh(reply["refreshToken"]?.string).error == "TOKEN_EXPIRED")
            #expect(try await hub.bench.call("lookup", ["idToken": reply["idToken"] ?? .null]).status == 400)
        }
    }

    /// A sign-in with a future time does not count as recent.
    @Test func signIn_ofTheFuture_isNotRecent() async throws {
        let hub = try Hub { $0.recentLoginSeconds = 300 }
        hub.clock.step(seconds: Self.day)
        let made = try await hub.bench.signUp("ana@x.org")
        hub.clock.step(seconds: -Self.day)
        let body: JSONValue = ["idToken": made["idToken"] ?? .null, "email": "ann@x.org"]
        #expect(try await hub.bench.call("update", body).error == "CREDENTIAL_TOO_OLD_LOGIN_AGAIN")
        let again = try await hub.bench.signIn("ana@x.org")
        #expect(try await hub.bench.call("update", ["idToken": again["idToken"] ?? .null, "email": "ann@x.org"]).status == 200)
    }

    /// A session expires by elapsed idle time, not by a clock that jumps.
    @Test func idleSession_endsByTimeGoneBy() async throws {
        let hub = try Hub { $0.idleDays = 10 }
        let made = try await hub.bench.signUp("ana@x.org")
        hub.clock.step(seconds: Self.year)
        #expect(try await hub.bench.refresh(made["refreshToken"]?.string).status == 200)
        hub.clock.step(seconds: -Self.year)
        let other = try await hub.bench.signIn("ana@x.org")
        hub.clock.advance(seconds: 10 * Self.day + 1)
        #expect(try await hub.bench.refresh(other["refreshToken"]?.string).error == "TOKEN_EXPIRED")
    }

    /// Started in 1970, corrected a minute later: users from before are kept, and expired data is removed from the second sweep on.
    @Test func startIn1970_thenSetRight_keepsWhoCame_andSweeps() async throws {
        let today = FakeClock().ms
        let hub = try Hub(startingAt: today) { ($0.guestDays, $0.idleDays, $0.endedSessionDays, $0.auditDays) = (30, 30, 1, 30) }
        let old = try await hub.bench.signUp()
        try await hub.bench.service.close()
        // The machine is off for a long time and has no clock battery.
        hub.clock.advance(seconds: 100 * Self.day)
        hub.clock.ms = 0
        try hub.start()
        let (guest, user) = (try await hub.bench.signUp(), try await hub.bench.signUp("ana@x.org"))
        hub.clock.advance(seconds: 60)
        hub.clock.ms = today + 100 * Self.day * 1000
        hub.clock.advance(seconds: 540)
        #expect(hub.bench.changes.all.isEmpty, "the first sweep does not believe the clock")
        hub.clock.advance(seconds: Self.day)
        #expect(hub.bench.changes.all == [AccountChange(try #require(old["localId"]?.string), .deleted)], "the second does")
        hub.clock.advance(seconds: 28 * Self.day)
        for reply in [guest, user] { #expect(try await hub.bench.refresh(reply["refreshToken"]?.string).status == 200) }
        let uid = try #require(user["localId"]?.string)
        #expect(try await hub.bench.service.stored { try $0.audit(of: uid, limit: 9).count } == 1)
        // Normal operation from then on.
        hub.clock.advance(seconds: 31 * Self.day)
        #expect(hub.bench.changes.all.last == AccountChange(try #require(guest["localId"]?.string), .deleted))
        #expect(try await hub.bench.refresh(user["refreshToken"]?.string).error == "TOKEN_EXPIRED")
    }

    /// The same, stopped before the first sweep.
    @Test func startIn1970_thenSetRight_thenStopped_keepsWhoCame() async throws {
        let today = FakeClock().ms
        let hub = try Hub(startingAt: 0) { ($0.guestDays, $0.idleDays) = (30, 30) }
        let guest = try await hub.bench.signUp()
        hub.clock.advance(seconds: 60)
        hub.clock.ms = today
        try await hub.resume(true)
        hub.clock.advance(seconds: 29 * Self.day)
        #expect(hub.bench.changes.all.isEmpty)
        #expect(try await hub.bench.refresh(guest["refreshToken"]?.string).status == 200)
    }

    /// An administrator who sets the clock ahead by mistake has a day to correct it.
    @Test func jumpAhead_removesNothing_whenItIsTakenBackWithinADay() async throws {
        let hub = try Hub { ($0.guestDays, $0.idleDays, $0.auditDays) = (30, 30, 30) }
        let (guest, user) = (try await hub.bench.signUp(), try await hub.bench.signUp("ana@x.org"))
        hub.clock.advance(seconds: 3600)
        for step in [Self.year, 20 * Self.year] {
            hub.clock.step(seconds: step)
            hub.clock.advance(seconds: Self.day - 1)
            hub.clock.step(seconds: -step)
            hub.clock.advance(seconds: 2 * Self.day)
        }
        #expect(hub.bench.changes.all.isEmpty)
        for reply in [guest, user] { #expect(try await hub.bench.refresh(reply["refreshToken"]?.string).status == 200) }
    }

    /// A jump that persists is accepted after a day, and not earlier.
    @Test func jumpAhead_isBelieved_afterADay() async throws {
        let hub = try Hub { $0.guestDays = 30 }
        let away = try #require(try await hub.bench.signUp()["localId"]?.string)
        hub.clock.advance(seconds: Self.day)
        hub.clock.step(seconds: Self.year)
        let start = hub.clock.steadyMs
        while hub.bench.changes.all.isEmpty, hub.clock.steadyMs - start < 40 * Self.day * 1000 { hub.clock.advance(seconds: 3600) }
        #expect(hub.bench.changes.all == [AccountChange(away, .deleted)])
        #expect(hub.clock.steadyMs - start >= Self.day * 1000)
    }

    /// A code that undoes an address change covers later changes, by their order and not by the clock.
    @Test func codes_areInTheirOrder_whenTheClockStepsBack() async throws {
        let hub = try Hub()
        let made = try await hub.bench.signUp("ana@x.org")
        let uid = try #require(made["localId"]?.string)
        func code(_ email: String) -> MailedCode { MailedCode(kind: .recoverEmail, uid: uid, email: email, newEmail: nil, expiresAt: .max) }
        try await hub.bench.service.add(code("ana@x.org"), "first", at: hub.clock.ms)
        hub.clock.step(seconds: -Self.day)
        try await hub.bench.service.add(code("ann@x.org"), "second", at: hub.clock.ms)
        try await hub.bench.service.add(code("anne@x.org"), "third", at: hub.clock.ms)
        try await hub.bench.service.removeCodes(of: uid, since: "second")
        #expect(try await hub.bench.service.stored { try $0.codes(of: uid).map(\.email) } == ["ana@x.org"])
        try await hub.bench.service.removeCodes(of: uid, since: "first")
        #expect(try await hub.bench.service.stored { try $0.codes(of: uid).count } == 0)
    }

    /// Cached keys of another service age by elapsed time.
    @Test func keysOfAnother_growOldByTimeGoneBy() async throws {
        let fetcher = FakeFetcher()
        fetcher.publish(FederationFixture.googleKeys, keys: [TokenKeys.rsa[0]])
        let bench = try AccountBench(fetcher: fetcher) { $0.identityProviders = [.google(clientIDs: [TestProvider.clientID])] }
        func signIn() async throws -> Reply {
            let body: JSONValue = [
                "requestUri": "http://localhost", "returnSecureToken": true,
                "postBody": .string("id_token=\(try TestProvider.token(bench))&providerId=google.com"),
            ]
            return try await bench.call("signInWithIdp", body)
        }
        for step in [Self.day, -Self.day, -Self.day, Self.day] {
            bench.clock.step(seconds: step)
            #expect(try await signIn().status == 200)
        }
        #expect(fetcher.asked.count == 1)
        bench.clock.step(seconds: -Self.day)
        bench.clock.advance(seconds: 3600)
        #expect(try await signIn().status == 200 && fetcher.asked.count == 2)
    }
}

extension AccountService {
    fileprivate func add(_ code: MailedCode, _ secret: String, at now: Int64) throws {
        try store.transaction { try $0.add(code, hash: SecretHash.of(secret), at: now) }
    }

    fileprivate func removeCodes(of uid: String, since secret: String) throws {
        try store.transaction { try $0.removeCodes(of: uid, .recoverEmail, since: SecretHash.of(secret)) }
    }
}
