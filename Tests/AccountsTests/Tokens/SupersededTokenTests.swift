import Foundation
import JSONTree
import Testing
import TestSupport

@testable import Accounts
@testable import Tokens

/// ID tokens with outdated claims.
@Suite(.timeLimit(.minutes(30))) struct SupersededTokenTests {
    private func fault(_ bench: AccountBench, _ token: JSONValue?) async throws -> TokenFault? {
        let token = try #require(token?.string)
        let result = await withCheckedContinuation { continuation in
            bench.service.verify(token, leeway: 0) { continuation.resume(returning: $0) }
        }
        if case .failure(let fault) = result { return fault }
        return nil
    }

    private func set(_ bench: AccountBench, _ reply: Reply, _ members: [JSONValue.Member]) async throws {
        let reply = try await bench.administer("update", .object([.init("localId", reply["localId"] ?? .null)] + members))
        #expect(reply.status == 200, "\(reply.text)")
    }

    private func fresh(_ bench: AccountBench, _ reply: Reply) async throws -> JSONValue? {
        try await bench.refresh(reply["refreshToken"]?.string)["id_token"]
    }

    /// All within one second of the clock.
    @Test func withdrawnClaim_endsTheTokensFromBefore_andNoneMadeAfter() async throws {
        let bench = try AccountBench()
        let (made, other) = (try await bench.signUp("ana@x.org"), try await bench.signUp("bo@x.org"))
        try await set(bench, made, [.init("customAttributes", #"{"role":"staff"}"#)])
        let staff = try await fresh(bench, made)
        #expect(try await fault(bench, staff) == nil)
        #expect(try await fault(bench, made["idToken"]) == .superseded, "granted a claim")
        try await set(bench, made, [.init("customAttributes", "{}")])
        #expect(bench.service.remembered(try #require(staff?.string), leeway: 0) == nil)
        #expect(try await fault(bench, staff) == .superseded)
        let last = try await fresh(bench, made)
        #expect(Reply.claims(last)["iat"] == Reply.claims(staff)["iat"], "of the same second")
        #expect(try await fault(bench, last) == nil)
        #expect(bench.service.remembered(try #require(last?.string), leeway: 0) != nil, "and is not looked up again")
        #expect(try await fault(bench, other["idToken"]) == nil)
        // The account endpoints accept the token of a session that has not ended: they trust no claims, and the JS SDK starts with this call.
        #expect(try await bench.call("lookup", ["idToken": staff ?? .null]).status == 200)
    }

    /// A clock that was set back makes no old token newer than the change.
    @Test func withdrawnClaim_staysWithdrawn_whateverTheClockSays() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        bench.clock.step(seconds: -3000)
        try await set(bench, made, [.init("customAttributes", #"{"role":"staff"}"#)])
        #expect(try await fault(bench, made["idToken"]) == .superseded)
        #expect(try await fault(bench, try await fresh(bench, made)) == nil)
    }

    @Test(arguments: ["number", "other-number", "verified", "identity", "other-identity", "disabled"])
    func whateverTokensSay_canBeWithdrawn(change: String) async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let google: [JSONValue.Member] = [.init("providerId", "google.com"), .init("rawId", "1099")]
        try await set(
            bench, made, [.init("phoneNumber", "+3069"), .init("emailVerified", true), .init("linkProviderUserInfo", .object(google))])
        let before = try await fresh(bench, made)
        #expect(try await fault(bench, before) == nil)
        bench.changes.removeAll()
        let members: [JSONValue.Member] = switch change {
        case "number": [.init("deleteProvider", ["phone"])]
        case "other-number": [.init("phoneNumber", "+3070")]
        case "verified": [.init("emailVerified", false)]
        case "identity": [.init("deleteProvider", ["google.com"])]
        case "other-identity": [.init("linkProviderUserInfo", ["providerId": "google.com", "rawId": "1100"])]
        default: [.init("disableUser", true)]
        }
        try await set(bench, made, members)
        #expect(bench.changes.all.map(\.kind) == [change == "disabled" ? .disabled : .claimsChanged])
        if change == "disabled" {
            #expect(try await fault(bench, before) == .disabled)
            try await set(bench, made, [.init("disableUser", false)])
        }
        #expect(try await fault(bench, before) == .superseded)
        #expect(try await fault(bench, try await fresh(bench, made)) == nil)
    }

    @Test func identityThatItsUserRemoves_isWithdrawnToo() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        try await set(bench, made, [.init("phoneNumber", "+3069")])
        try await set(bench, made, [.init("linkProviderUserInfo", ["providerId": "google.com", "rawId": "1099"])])
        for provider in ["google.com", "phone"] as [JSONValue] {
            let before = try await fresh(bench, made)
            #expect(try await fault(bench, before) == nil)
            #expect(try await bench.call("update", ["idToken": before ?? .null, "deleteProvider": [provider]]).status == 200)
            #expect(try await fault(bench, before) == .superseded)
        }
    }

    @Test func tokens_stay_whereTheySayTooLittle() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        try await set(bench, made, [.init("customAttributes", #"{"role":"staff"}"#)])
        let token = try await fresh(bench, made)
        try await set(bench, made, [.init("displayName", "Ana"), .init("photoUrl", "p"), .init("disableUser", false)])
        try await set(bench, made, [.init("emailVerified", true), .init("phoneNumber", "+3069")])
        try await set(bench, made, [.init("linkProviderUserInfo", ["providerId": "google.com", "rawId": "1099"])])
        try await set(bench, made, [.init("customAttributes", #"{"role":"staff"}"#)])
        #expect(try await fault(bench, token) == nil)
    }

    @Test func withdrawnClaim_staysWithdrawn_afterARestart() async throws {
        let folder = try TemporaryFolder()
        let bench = try AccountBench(folder: folder.url.path)
        let made = try await bench.signUp("ana@x.org")
        try await set(bench, made, [.init("customAttributes", #"{"role":"staff"}"#)])
        let staff = try await fresh(bench, made)
        try await set(bench, made, [.init("customAttributes", "{}")])
        // The change is on disk when it is answered: the first service is not closed.
        let next = try AccountBench(folder: folder.url.path, clock: bench.clock)
        #expect(try await fault(next, staff) == .superseded)
        #expect(try await fault(next, try await fresh(next, made)) == nil)
    }

    /// A backup was restored, so the count continues from an earlier number.
    @Test func tokenOfAGenerationThatNeverWas_isRefused() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        try await set(bench, made, [.init("customAttributes", #"{"role":"staff"}"#)])
        let token = try #require(try await fresh(bench, made)?.string)
        let payload = String(decoding: Base64.decodeURL(token.split(separator: ".")[1]) ?? [], as: UTF8.self)
        #expect(payload.contains(#""generation":1"#))
        let later = try bench.service.tokens.keys.sign(Array(payload.replacing(#""generation":1"#, with: #""generation":2"#).utf8))
        #expect(try await fault(bench, .string(later)) == .superseded)
    }
}
