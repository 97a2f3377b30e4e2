import GRDB
import HTTPTypes
import JSONTree
import Testing
import TestSupport

@testable import Accounts

/// Which account commits wait for the disk: all but sign-ins, so that these do not delay writes of data.
@Suite(.timeLimit(.minutes(30))) struct AccountDurabilityTests {
    /// The durability that the transactions of `work` waited for.
    private func waits(
        _ bench: AccountBench, _ work: () async throws -> Reply
    ) async throws -> [AccountDurability: Int] {
        let before = await bench.service.transactions
        _ = try await work()
        return await bench.service.transactions.merging(before) { $0 - $1 }.filter { $0.value > 0 }
    }

    @Test func sqlite_forcesEachCommit_butThoseOfSignIns() throws {
        let folder = try TemporaryFolder()
        let store = try AccountStore(folder: folder.path)
        for (durability, level) in [(AccountDurability.onDisk, 2), (.withSystem, 1), (.withSystem, 1), (.onDisk, 2)] {
            #expect(try store.transaction(durability) { try Int.fetchOne($0.db, sql: "PRAGMA synchronous") } == level)
        }
        #expect(try store.transaction { try Int.fetchOne($0.db, sql: "PRAGMA synchronous") } == 2)
        try store.close()
    }

    @Test func signIns_doNotWaitForTheDisk() async throws {
        let bench = try AccountBench()
        let signedUp = try await bench.signUp("ana@example.org")
        #expect(try await waits(bench) { try await bench.signIn("ana@example.org") } == [.withSystem: 1])
        #expect(try await waits(bench) { try await bench.signIn("ana@example.org", "wrong horse") } == [.withSystem: 1])
        #expect(try await waits(bench) { try await bench.refresh(signedUp["refreshToken"]?.string) } == [.withSystem: 1])
    }

    @Test func signIn_withAKnownIdentity_doesNotWait_andOneThatMakesAnAccountDoes() async throws {
        let bench = try AccountBench(fetcher: TestProvider()) { $0.identityProviders = [.google(clientIDs: [TestProvider.clientID])] }
        let signIn = {
            let body = "id_token=\(try TestProvider.token(bench))&providerId=google.com"
            return try await bench.call("signInWithIdp", ["requestUri": "http://localhost", "postBody": .string(body)])
        }
        #expect(try await waits(bench, signIn) == [.onDisk: 1])
        #expect(try await waits(bench, signIn) == [.withSystem: 1])
    }

    @Test func changesOfAnAccount_waitForTheDisk() async throws {
        let bench = try AccountBench()
        #expect(try await waits(bench) { try await bench.signUp("ana@example.org") } == [.onDisk: 1])
        #expect(try await waits(bench) { try await bench.signUp() } == [.onDisk: 1])
        var user = try await bench.signIn("ana@example.org")
        let uid = try #require(user["localId"]?.string)
        let change: (JSONValue) async throws -> Reply = { try await bench.call("update", $0) }
        #expect(try await waits(bench) {
            user = try await change(["idToken": user["idToken"] ?? .null, "password": "another horse", "returnSecureToken": true])
            return user
        } == [.onDisk: 1])
        #expect(user.status == 200, "\(user.text)")
        let code = try await bench.code("PASSWORD_RESET", "ana@example.org")
        #expect(try await waits(bench) {
            try await bench.call("resetPassword", ["oobCode": .string(code), "newPassword": "third horse"])
        } == [.onDisk: 1])
        for body: JSONValue in [
            ["localId": .string(uid), "validSince": "1790000000"], ["localId": .string(uid), "disableUser": true],
            ["localId": .string(uid), "customAttributes": "{\"role\":\"staff\"}"],
        ] {
            #expect(try await waits(bench) { try await bench.administer("update", body) } == [.onDisk: 1], "\(body.json)")
        }
        #expect(try await waits(bench) { try await bench.administer("delete", ["localId": .string(uid)]) }[.onDisk] == 1)
    }

    @Test func sessionThatIsEnded_waitsForTheDisk() async throws {
        let bench = try AccountBench()
        let token = try #require(try await bench.signUp("ana@example.org")["refreshToken"]?.string)
        #expect(try await waits(bench) {
            try await bench.ask(
                ".oauth/revoke", key: false, fields: [.contentType: "application/x-www-form-urlencoded"], raw: "token=\(token)")
        } == [.onDisk: 1])
    }
}

extension AccountService {
    fileprivate var transactions: [AccountDurability: Int] { store.transactions }
}
