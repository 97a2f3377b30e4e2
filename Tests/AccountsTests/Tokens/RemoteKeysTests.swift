import JSONTree
import Testing
import TestSupport

@testable import Accounts
@testable import Tokens

/// Keys of other services: how long they are cached, and the behaviour when they cannot be fetched.
@Suite(.timeLimit(.minutes(30))) struct RemoteKeysTests {
    private static let url = "https://keys.example/k"
    let clock = FakeClock()
    let fetcher = FakeFetcher()
    let first = TokenKeys.p256[0]
    let second = TokenKeys.p256[1]

    private func keys(_ location: KeyLocation = .keySet(url), _ change: (inout KeyFetchSettings) -> Void = { _ in }) -> RemoteKeys {
        var settings = KeyFetchSettings()
        change(&settings)
        return RemoteKeys(
            location, fetcher: fetcher, settings: settings, logger: .silent, now: clock.now)
    }

    private func fault(_ keys: RemoteKeys, _ key: SigningKey) async -> TokenFault? {
        do throws(TokenFault) {
            let found = try await keys.key(key.verifying.id)
            #expect(found.id == key.verifying.id)
            return nil
        } catch { return error }
    }

    @Test func keys_areFetchedOnce_andAgainWhenTheirAgeIsOver() async {
        let keys = keys()
        fetcher.publish(Self.url, keys: [first], maxAge: 100)
        #expect(keys.held(first.verifying.id) == nil)
        for _ in 0..<3 { #expect(await fault(keys, first) == nil) }
        #expect(fetcher.asked.count == 1)
        #expect(keys.held(first.verifying.id) != nil)
        clock.advance(seconds: 99)
        #expect(await fault(keys, first) == nil)
        #expect(fetcher.asked.count == 1)
        clock.advance(seconds: 1)
        #expect(keys.held(first.verifying.id) == nil)
        fetcher.publish(Self.url, keys: [second], maxAge: 100)
        // The provider has withdrawn it.
        #expect(await fault(keys, first) == .unknownKey)
        #expect(await fault(keys, second) == nil)
        #expect(fetcher.asked.count == 2)
    }

    @Test(arguments: [(nil, 300), (0, 60), (59, 60), (61, 61), (86_400, 86_400), (1_000_000_000, 86_400)] as [(Int?, Int64)])
    func age_hasBounds(_ said: Int?, _ kept: Int64) async {
        let keys = keys()
        fetcher.publish(Self.url, keys: [first], maxAge: said)
        #expect(await fault(keys, first) == nil)
        clock.advance(seconds: kept - 1)
        #expect(await fault(keys, first) == nil)
        #expect(fetcher.asked.count == 1)
        clock.advance(seconds: 1)
        #expect(await fault(keys, first) == nil)
        #expect(fetcher.asked.count == 2)
    }

    @Test func unknownKey_isRequestedOnceInAWhile() async {
        let keys = keys()
        fetcher.publish(Self.url, keys: [first])
        #expect(await fault(keys, first) == nil)
        // Right after a fetch, and however often such a token arrives.
        for _ in 0..<5 { #expect(await fault(keys, second) == .unknownKey) }
        #expect(fetcher.asked.count == 1)
        clock.advance(seconds: 60)
        for _ in 0..<5 { #expect(await fault(keys, second) == .unknownKey) }
        #expect(fetcher.asked.count == 2)
        // The provider has changed its keys: they are known within a minute.
        fetcher.publish(Self.url, keys: [second, first])
        clock.advance(seconds: 59)
        #expect(await fault(keys, second) == .unknownKey)
        clock.advance(seconds: 1)
        #expect(await fault(keys, second) == nil)
        #expect(fetcher.asked.count == 3)
    }

    @Test func lastKeys_stayInUse_whileTheNetworkFails() async {
        let keys = keys()
        fetcher.publish(Self.url, keys: [first], maxAge: 100)
        #expect(await fault(keys, first) == nil)
        fetcher.fail(Self.url)
        clock.advance(seconds: 100)
        #expect(await fault(keys, first) == nil)
        #expect(await fault(keys, second) == .unknownKey)
        // One attempt; the next one only when it is due.
        #expect(fetcher.asked.count == 2)
        clock.advance(seconds: 9)
        #expect(await fault(keys, first) == nil)
        #expect(fetcher.asked.count == 2)
        clock.advance(seconds: 1)
        #expect(await fault(keys, first) == nil)
        #expect(fetcher.asked.count == 3)
    }

    @Test func keys_endADayPastTheirAge_whenNoneCanBeFetched() async {
        for useless in [nil, #"{"keys":[]}"#] {
            let keys = keys { $0.staleSeconds = 1_000 }
            fetcher.publish(Self.url, keys: [first], maxAge: 100)
            #expect(await fault(keys, first) == nil)
            if let useless { fetcher.publish(Self.url, useless) } else { fetcher.fail(Self.url) }
            clock.advance(seconds: 100 + 999)
            #expect(await fault(keys, first) == nil)
            clock.advance(seconds: 1)
            #expect(await fault(keys, first) == .keysUnavailable)
            fetcher.publish(Self.url, keys: [first], maxAge: 100)
            clock.advance(seconds: 10)
            #expect(await fault(keys, first) == nil)
        }
    }

    @Test func token_isRefused_whileThereAreNoKeys() async {
        let keys = keys()
        fetcher.fail(Self.url)
        for _ in 0..<3 { #expect(await fault(keys, first) == .keysUnavailable) }
        #expect(fetcher.asked.count == 1)
        for useless in ["", "{}", #"{"keys":{}}"#, #"{"keys":[]}"#, "<html>", #"{"keys":[{"kty":"oct","kid":"a","k":"AAAA"}]}"#] {
            fetcher.publish(Self.url, useless)
            clock.advance(seconds: 10)
            #expect(await fault(keys, first) == .keysUnavailable)
        }
        fetcher.publish(Self.url, keys: [first])
        clock.advance(seconds: 10)
        #expect(await fault(keys, first) == nil)
    }

    @Test func clockThatWasSetBack_isNotWaitedFor() async {
        let keys = keys()
        fetcher.fail(Self.url)
        #expect(await fault(keys, first) == .keysUnavailable)
        clock.step(seconds: -100_000)
        fetcher.publish(Self.url, keys: [first])
        #expect(await fault(keys, first) == nil)
    }

    @Test func parallelRequests_shareOneFetch() async {
        let keys = keys()
        fetcher.publish(Self.url, keys: [first])
        fetcher.hold()
        await withTaskGroup(of: TokenFault?.self) { group in
            for _ in 0..<20 { group.addTask { await fault(keys, first) } }
            #expect(await becomes { !fetcher.asked.isEmpty })
            fetcher.letGo()
            for await fault in group { #expect(fault == nil) }
        }
        #expect(fetcher.asked.count == 1)
    }

    @Test func discovery_saysWhereTheKeysAre_andMustBeTheIssuersOwn() async {
        let configuration = "https://id.example/tenant/.well-known/openid-configuration"
        for issuer in ["https://id.example/tenant", "https://id.example/tenant/"] {
            let keys = keys(.discovery(issuer: issuer))
            fetcher.publish(configuration, #"{"issuer":"\#(issuer)","jwks_uri":"\#(Self.url)"}"#)
            fetcher.publish(Self.url, keys: [first])
            #expect(await fault(keys, first) == nil)
        }
        #expect(fetcher.asked == [configuration, Self.url, configuration, Self.url])
        for wrong in [
            #"{"issuer":"https://evil.example","jwks_uri":"\#(Self.url)"}"#, #"{"issuer":"https://id.example/tenant"}"#, "{}", "nonsense",
        ] {
            fetcher.publish(configuration, wrong)
            #expect(await fault(keys(.discovery(issuer: "https://id.example/tenant")), first) == .keysUnavailable)
        }
    }

    @Test func keySet_holdsKeysThatCheckSignatures_andLeavesOutTheRest() throws {
        let (rsa, p256) = (String(decoding: TokenKeys.rsa[0].jwk, as: UTF8.self), String(decoding: first.jwk, as: UTF8.self))
        func ids(_ keys: String..., limit: Int = 64) throws -> [String] {
            try KeySet(Array("{\"keys\":[\(keys.joined(separator: ","))]}".utf8), limit: limit).keys.map(\.id)
        }
        let (rsaID, p256ID) = (TokenKeys.rsa[0].verifying.id, first.verifying.id)
        #expect(try ids(rsa, p256) == [rsaID, p256ID])
        #expect(try ids(rsa, p256, limit: 1) == [rsaID])
        #expect(try ids(rsa, p256, limit: 2) == [rsaID, p256ID])
        func changed(_ key: String, _ from: String, _ to: String) -> String {
            #expect(key.contains(from))
            return key.replacing(from, with: to)
        }
        for useless in [
            changed(rsa, #""use":"sig""#, #""use":"enc""#), changed(rsa, #""alg":"RS256""#, #""alg":"RS512""#),
            changed(rsa, #""alg":"RS256""#, #""alg":"HS256""#),
            changed(rsa, #""alg":"RS256""#, #""alg":1"#), changed(rsa, #""kty":"RSA""#, #""kty":"oct""#),
            changed(rsa, #""kid""#, #""Kid""#),
            changed(rsa, "AQAB", "AQABAAAA"), changed(rsa, #""AQAB""#, #""""#), changed(p256, "P-256", "P-384"),
            changed(p256, #""x":""#, #""x":"AAAA"#),
            changed(p256, #""ES256""#, #""RS256""#), #"{"kty":"RSA","kid":"short","n":"AQAB","e":"AQAB"}"#, "1", "null", "[]", "{}",
            #"{"kty":"EC","crv":"P-256","kid":"nowhere","x":"\#(String(repeating: "A", count: 43))","#
                + #""y":"\#(String(repeating: "A", count: 43))"}"#,
        ] { #expect(try ids(useless, p256) == [p256ID], "\(useless)") }
        // Variations of other vendors: members left out or added.
        #expect(try ids(changed(rsa, #""use":"sig","alg":"RS256","#, #""x5c":["AAAA"],"extra":null,"#)) == [rsaID])
    }
}
