import Foundation
import JSONTree
import Testing
import TestSupport

@testable import Accounts
@testable import Tokens

@Suite(.timeLimit(.minutes(30))) struct KeyRotationTests {
    private func published(_ service: AccountService) throws -> [String] {
        try JSONValue(service.jwks)["keys"]?.elements?.compactMap { $0["kid"]?.string } ?? []
    }

    private func folder() throws -> String {
        let path = FileManager.default.temporaryDirectory.path + "/vigla-tokens-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        return path
    }

    @Test func check38_oldTokens_verifyAfterARotation_untilTheLastHasExpired() async throws {
        let fixture = try TokenFixture()
        try await fixture.signIn("ana")
        let (service, first) = (fixture.service, fixture.service.signingKeyID)
        let old = try fixture.token("ana")
        let second = try await service.rotateSigningKey()
        #expect(second != first && service.signingKeyID == second)
        #expect(try published(service) == [second, first])
        let new = try fixture.token("ana")
        #expect(try new.tokenJSON(0)["kid"]?.string == second)
        #expect(await fixture.fault(old) == nil)
        #expect(await fixture.fault(new) == nil)

        // The old key's last token lives for an hour, plus a margin of 300 s.
        fixture.clock.advance(seconds: 3899)
        #expect(await fixture.fault(old, leeway: 300) == nil)
        #expect(try published(service) == [second, first])
        fixture.clock.advance(seconds: 1)
        #expect(await fixture.fault(old, leeway: 300) == .unknownKey)
        #expect(try published(service) == [second])
    }

    @Test func check38_keysAndTheirEnds_surviveARestart() async throws {
        let folder = try folder()
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let fixture = try TokenFixture(folder: folder)
        try await fixture.signIn("ana")
        let old = try fixture.token("ana")
        let first = fixture.service.signingKeyID
        fixture.clock.advance(seconds: 10)
        let second = try await fixture.service.rotateSigningKey()
        let new = try fixture.token("ana")
        try await fixture.service.close()

        let again = try AccountService(
            fixture.service.settings, folder: folder, logger: fixture.service.logger, scheduler: fixture.clock.scheduler)
        #expect(again.signingKeyID == second)
        #expect(try published(again) == [second, first])
        for token in [old, new] {
            let result = await withCheckedContinuation { continuation in
                again.verify(token, leeway: 0) { continuation.resume(returning: $0) }
            }
            #expect(throws: Never.self) { try result.get() }
        }
        try await again.close()

        // Another algorithm is another key; existing tokens stay valid.
        fixture.clock.advance(seconds: 10)
        var settings = fixture.service.settings
        settings.signingAlgorithm = .rs256
        let other = try AccountService(settings, folder: folder, logger: fixture.service.logger, scheduler: fixture.clock.scheduler)
        #expect(try published(other).suffix(2) == [second, first] && other.signingKeyID != second)
        let result = await withCheckedContinuation { continuation in other.verify(new, leeway: 0) { continuation.resume(returning: $0) } }
        #expect(throws: Never.self) { try result.get() }
        try await other.close()
    }

    @Test func rotationWithoutOlderKeys_endsTheirTokensAtOnce() async throws {
        let fixture = try TokenFixture()
        try await fixture.signIn("ana")
        let old = try fixture.token("ana")
        #expect(await fixture.fault(old) == nil)
        let kid = try await fixture.service.rotateSigningKey(keepsOlder: false)
        #expect(await fixture.fault(old) == .unknownKey)
        #expect(try published(fixture.service) == [kid])
        #expect(await fixture.fault(try fixture.token("ana")) == nil)
    }

    @Test func tokenWhoseKeyEndsDuringItsCheck_isRefused() async throws {
        let fixture = try TokenFixture()
        try await fixture.signIn("ana")
        let (old, faults) = (try fixture.token("ana"), Collected<TokenFault?>())
        // Checked off the service's queue; the key expires before the second half of the check.
        let found = try fixture.service.check(old)
        try await fixture.service.rotateSigningKey(keepsOlder: false)
        try await fixture.service.step { service in service.admit(old, found) { faults.add($0.fault) } }
        #expect(faults.all == [.unknownKey])
        #expect(fixture.service.tokens.rememberedCount == 0)
        #expect(await fixture.fault(old) == .unknownKey)
    }

    /// The thief of a key cannot issue a token that lasts forever.
    @Test func tokenWithALongerLifeThanOurs_isRefused() async throws {
        let fixture = try TokenFixture { $0.tokenSeconds = 600 }
        try await fixture.signIn("ana")
        func fault(_ lifetime: Int64) async throws -> TokenFault? {
            var claims = fixture.claims("ana")
            claims.expires = claims.issuedAt + lifetime
            return await fixture.fault(try fixture.service.sign(claims.payload(project: "demo-app")))
        }
        #expect(try await fault(600) == nil)
        #expect(try await fault(601) == .expired)
        #expect(try await fault(10 * 365 * 86_400) == .expired)
    }

    @Test func rotation_forgetsKeys_whoseTokensHaveExpired() async throws {
        let fixture = try TokenFixture()
        for _ in 0..<3 {
            try await fixture.service.rotateSigningKey()
            fixture.clock.advance(seconds: 2000)
        }
        let stored = try await fixture.service.step { service in try service.store.read { try $0.signingKeys() }.count }
        // Retired 6,000 s, 4,000 s and 2,000 s ago; at the last rotation, 4,000 s, 2,000 s and 0 s ago.
        #expect(stored == 3)
    }

    @Test func privateKeys_areInAFile_thatOnlyItsOwnerReads() async throws {
        let folder = try folder()
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let fixture = try TokenFixture(folder: folder)
        try await fixture.signIn("ana")
        try await fixture.service.rotateSigningKey()
        for file in try FileManager.default.contentsOfDirectory(atPath: folder) {
            let mode = try FileManager.default.attributesOfItem(atPath: folder + "/" + file)[.posixPermissions] as? Int
            #expect(mode == 0o600, "\(file)")
        }
        try await fixture.service.close()
    }
}
