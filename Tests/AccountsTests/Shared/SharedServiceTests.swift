import HTTPTypes
import JSONTree
import Synchronization
import Testing
import TestSupport

@testable import Accounts
@testable import Tokens

/// Services of several hubs, with one log.
@Suite(.timeLimit(.minutes(30))) struct SharedServiceTests {
    private let log = MemorySharedLog()
    private let clock = FakeClock()

    private func hub(
        _ follower: MemorySharedLog.Follower? = nil, _ configure: (inout AccountSettings) -> Void = { _ in }
    ) throws -> AccountBench {
        try AccountBench(clock: clock, log: follower ?? log.follower(), configure)
    }

    private func verify(_ hub: AccountBench, _ reply: Reply) async throws -> Result<VerifiedToken, TokenFault> {
        let token = try #require(reply["idToken"]?.string)
        return await withCheckedContinuation { continuation in
            hub.service.verify(token, leeway: 0) { continuation.resume(returning: $0) }
        }
    }

    private func fault(_ hub: AccountBench, _ reply: Reply) async throws -> TokenFault? {
        if case .failure(let fault) = try await verify(hub, reply) { fault } else { nil }
    }

    /// Like `becomes`, for conditions that have to call the service.
    private func soon(_ condition: () async throws -> Bool) async throws -> Bool {
        for _ in 0..<20_000 {
            if try await condition() { return true }
            try await Task.sleep(for: .milliseconds(1))
        }
        return false
    }

    @Test func account_ofOneHub_isThereOnAll() async throws {
        let hubs = try (0..<3).map { _ in try hub() }
        // Hubs that have just started share one key.
        #expect(Set(hubs.map(\.service.signingKeyID)).count == 1)
        let made = try await hubs[0].signUp("ana@x.org")
        #expect(try await hubs[1].signIn("ana@x.org").status == 200)
        #expect(try await hubs[2].refresh(made["refreshToken"]?.string).status == 200)
        #expect(try await hubs[1].user(made)["email"] == "ana@x.org")
        #expect(try await verify(hubs[2], made).get().uid == made["localId"]?.string)
        #expect(try await hubs[2].call("signUp", ["email": "ana@x.org", "password": "another horse"]).error == "EMAIL_EXISTS")
    }

    @Test func disabledAccount_isToldOnAll_andItsTokensAreForgotten() async throws {
        let hubs = try (0..<3).map { _ in try hub() }
        let made = try await hubs[0].signUp("ana@x.org")
        let uid = try #require(made["localId"]?.string)
        for hub in hubs { #expect(try await verify(hub, made).get().uid == uid) }
        let reply = try await hubs[2].administer("update", ["localId": .string(uid), "disableUser": true])
        #expect(reply.status == 200, "\(reply.text)")
        for hub in hubs {
            #expect(await becomes { hub.changes.all.contains(AccountChange(uid, .disabled)) })
            #expect(try await fault(hub, made) == .disabled)
            #expect(hub.changes.all.count(where: { $0 == AccountChange(uid, .disabled) }) == 1)
        }
        #expect(try await hubs[1].refresh(made["refreshToken"]?.string).error == "USER_DISABLED")
    }

    @Test func withdrawnClaim_ofOneHub_endsTokensOnAll() async throws {
        let hubs = try (0..<3).map { _ in try hub() }
        let made = try await hubs[0].signUp("ana@x.org")
        let uid = try #require(made["localId"]?.string)
        for hub in hubs { #expect(try await verify(hub, made).get().uid == uid) }
        #expect(try await hubs[2].administer("update", ["localId": .string(uid), "customAttributes": #"{"role":"staff"}"#]).status == 200)
        for hub in hubs {
            #expect(await becomes { hub.changes.all.contains(AccountChange(uid, .claimsChanged)) })
            #expect(try await fault(hub, made) == .superseded)
        }
        let fresh = try await hubs[1].refresh(made["refreshToken"]?.string)
        #expect(Reply.claims(fresh["id_token"])["role"] == "staff")
    }

    @Test func replacedRefreshToken_isKnownOnAll() async throws {
        let hubs = try (0..<3).map { _ in try hub { $0.refreshRotation = .all } }
        var token = try await hubs[0].signUp()["refreshToken"]?.string
        let first = token
        // Each hub immediately after the previous one: it looks up unknown tokens, and takes none for stolen.
        for i in 0..<12 {
            let reply = try await hubs[i % 3].refresh(token)
            #expect(reply.status == 200 && reply["refresh_token"]?.string != token, "\(reply.text)")
            token = reply["refresh_token"]?.string
        }
        clock.advance(ms: 60_001)
        #expect(try await hubs[1].refresh(token).status == 200)
        #expect(try await hubs[2].refresh(first).error == "TOKEN_EXPIRED")
        for hub in hubs { #expect(try await hub.refresh(token).error == "TOKEN_EXPIRED") }
    }

    @Test func newKey_ofOneHub_isOfAll() async throws {
        let hubs = try (0..<2).map { _ in try hub() }
        let before = try await hubs[0].signUp()
        let key = try await hubs[1].service.rotateSigningKey()
        let made = try await hubs[1].signUp()
        #expect(try await verify(hubs[0], made).get().uid == made["localId"]?.string)
        #expect(await becomes { hubs[0].service.signingKeyID == key })
        #expect(try await verify(hubs[0], before).get().uid == before["localId"]?.string)
        try await hubs[0].service.rotateSigningKey(keepsOlder: false)
        #expect(await becomes { hubs[1].service.signingKeyID == hubs[0].service.signingKeyID })
        #expect(try await fault(hubs[1], made) == .unknownKey)
    }

    @Test func hubThatIsCutOff_readsAndRefreshes_andRecordsNothing() async throws {
        let follower = log.follower()
        let (cut, other) = (try hub(follower), try hub())
        let made = try await cut.signUp("ana@x.org")
        follower.fault.withLock { $0 = .away }
        #expect(try await cut.refresh(made["refreshToken"]?.string).status == 200)
        #expect(try await verify(cut, made).get().uid == made["localId"]?.string)
        #expect(try await cut.user(made)["email"] == "ana@x.org")
        for reply in [
            try await cut.call("signUp", ["returnSecureToken": true]), try await cut.signIn("ana@x.org"), try await cut.signIn("bo@x.org"),
            // It may be another hub's, so the user is not signed out.
            try await cut.refresh("unknown"),
        ] {
            #expect(reply.status == 503 && reply.text.contains("log of this hub's cluster"), "\(reply.text)")
        }
        // A refused change had no effect.
        #expect(try await other.signIn("ana@x.org").status == 200)
        follower.fault.withLock { $0 = nil }
        #expect(try await cut.signIn("ana@x.org").status == 200)
        #expect(try await cut.refresh("unknown").error == "INVALID_REFRESH_TOKEN")
    }

    @Test func useOfASession_isToldNowAndThen() async throws {
        let hubs = try (0..<2).map { _ in try hub() }
        let made = try await hubs[0].signUp()
        clock.advance(ms: 3_600_000)
        let before = log.records.count
        for _ in 0..<5 { #expect(try await hubs[1].refresh(made["refreshToken"]?.string).status == 200) }
        #expect(log.records.count == before)
        clock.advance(ms: 61_000)
        #expect(await becomes { log.records.count == before + 1 })
        let uid = try #require(made["localId"]?.string)
        let seen = clock.ms - 61_000
        #expect(try await soon { try await hubs[0].service.stored { try $0.sessions(of: uid) }.first?.lastUsedAt == seen })
    }

    @Test func wrongPasswords_countOnAllHubs_andARightOneResetsThem() async throws {
        let hubs = try (0..<3).map { _ in
            try hub {
                $0.throttle.isOn = true
                $0.throttle.firstDelayMs = 60_000
            }
        }
        _ = try await hubs[0].signUp("ana@x.org")
        for _ in 0..<5 { #expect(try await hubs[0].signIn("ana@x.org", "wrong").error == "INVALID_PASSWORD") }
        let before = await hubs[1].service.counted
        clock.advance(ms: 1_000)
        for hub in hubs.dropFirst() {
            #expect(try await soon { await hub.service.counted > before })
            // The right password, too: it is not checked.
            #expect(try await hub.signIn("ana@x.org").error?.hasPrefix("TOO_MANY_ATTEMPTS_TRY_LATER") == true)
        }
        clock.advance(ms: 60_000)
        #expect(try await hubs[1].signIn("ana@x.org").status == 200)
        clock.advance(ms: 1_000)
        // As after a start: five more attempts on each hub.
        for hub in hubs {
            #expect(try await soon { try await hub.service.isForgotten("ana@x.org") })
        }
    }
}

extension AccountService {
    fileprivate var counted: Int { throttle.count }

    /// Whether no failure of the account is counted.
    fileprivate func isForgotten(_ email: String) throws -> Bool {
        let id = try store.read { try $0.account(.email(email))?.id ?? "" }
        var throttle = throttle
        return (0..<4).allSatisfy { _ in throttle.admitPassword(of: id, from: "203.0.113.9", now: clock.steady()) == nil }
    }
}
