import JSONTree
import Testing

@testable import Accounts
@testable import Tokens

@Suite(.timeLimit(.minutes(30))) struct VerifiedTokenCacheTests {
    private static func token(_ uid: String) throws -> VerifiedToken {
        try VerifiedToken(["sub": .string(uid), "exp": 2_000_000_000, "iss": "i"], isOwn: true)
    }

    private static func text(_ i: Int) -> String { "header.payload-\(i)." + String(repeating: "x", count: 24) + String(10_000_000 + i) }

    /// Compared with a model that keeps everything: entries found are right, forgotten ones are not found, and the limit holds.
    @Test(arguments: [2, 3, 8, 40]) func cache_findsOnlyStoredTokens_thatWereNotForgotten(_ limit: Int) throws {
        var cache = VerifiedTokenCache(limit: limit)
        var model: [Int: String] = [:]
        var random = SystemRandomNumberGenerator()
        var found = 0
        for _ in 0..<20_000 {
            let i = Int.random(in: 0..<60, using: &random)
            switch Int.random(in: 0..<10, using: &random) {
            case 0...3:
                let uid = "u\(i % 7)"
                _ = cache.insert(Self.text(i), try Self.token(uid))
                model[i] = uid
                // The last entry is always found.
                #expect(cache.token(Self.text(i))?.0.uid == uid)
            case 4:
                let uid = "u\(i % 7)"
                cache.forget(uid: uid)
                model = model.filter { $0.value != uid }
            case 5:
                cache.forget(Self.text(i))
                model[i] = nil
            default:
                if let (token, _) = cache.token(Self.text(i)) {
                    found += 1
                    #expect(token.uid == model[i])
                }
            }
            if cache.count > (limit + 1) / 2 * 2 { Issue.record("\(cache.count) tokens") }
        }
        #expect(found > 100)
    }

    @Test func tokenInUse_stays_whileOthersComeAndGo() throws {
        var cache = VerifiedTokenCache(limit: 10)
        _ = cache.insert(Self.text(0), try Self.token("ana"))
        for i in 1..<200 {
            _ = cache.insert(Self.text(i), try Self.token("u"))
            if i % 4 == 0 { #expect(cache.token(Self.text(0))?.0.uid == "ana") }
        }
        #expect(cache.token(Self.text(1)) == nil)
    }

    @Test func tokenWithTheSameEnd_isAnother() throws {
        var cache = VerifiedTokenCache(limit: 10)
        _ = cache.insert(Self.text(1), try Self.token("ana"))
        #expect(cache.token("other." + Self.text(1)) == nil)
        #expect(cache.token("H" + Self.text(1).dropFirst()) == nil)
        // Canonically the same letter, but a different text.
        _ = cache.insert("K" + Self.text(2), try Self.token("ana"))
        #expect(cache.token("\u{212A}" + Self.text(2)) == nil)
        #expect(cache.token("short") == nil)
    }

    @Test func limitOfNone_remembersNothing() async throws {
        var cache = VerifiedTokenCache(limit: 0)
        _ = cache.insert(Self.text(1), try Self.token("ana"))
        #expect(cache.count == 0 && cache.token(Self.text(1)) == nil)
        let fixture = try TokenFixture { $0.rememberedTokens = 0 }
        try await fixture.signIn("ana")
        let token = try fixture.token("ana")
        #expect(await fixture.fault(token) == nil)
        #expect(fixture.service.tokens.rememberedCount == 0)
    }

    @Test func limitOfTheService_boundsTheCache() async throws {
        let fixture = try TokenFixture { $0.rememberedTokens = 4 }
        for i in 0..<20 {
            try await fixture.signIn("u\(i)")
            #expect(await fixture.fault(try fixture.token("u\(i)")) == nil)
            #expect(fixture.service.tokens.rememberedCount <= 4)
        }
        #expect(fixture.service.tokens.rememberedCount >= 2)
    }
}
