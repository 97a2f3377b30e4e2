import Mail
import Testing
import TestSupport

@testable import Accounts

/// A write built separately: a store in memory, settings and a clock, without a service.
struct AccountWriteTests {
    private let clock = AccountClock(FakeClock().scheduler)

    private func write<Result>(
        _ settings: AccountSettings = AccountSettings(), hidesAccounts: Bool = false, _ work: (AccountWrite) throws -> Result
    ) throws -> Result {
        try AccountStore(folder: nil).transaction { try work(AccountWrite($0, nil, settings, clock, hidesAccounts: hidesAccounts)) }
    }

    @Test func oldestSession_isEndedAndAnnounced_beyondTheLimit() throws {
        var settings = AccountSettings()
        settings.sessionsOfAccount = 1
        try write(settings) { write in
            let first = try write.begin(Account(id: "ana", createdAt: 0), provider: "anonymous")
            #expect(write.changes.isEmpty)
            let second = try write.open(first.account, provider: "anonymous")
            #expect(write.changes == [AccountChange("ana", .sessionEnded(first.session.id))])
            #expect(try write.transaction.sessions(of: "ana").map(\.id) == [second.session.id])
        }
    }

    @Test(arguments: [true, false])
    func wayBack_isMailed_toAProvenAddressOnly(_ isProven: Bool) throws {
        try write { write in
            var account = Account(id: "ana", createdAt: 0)
            account.email = "ana@example.org"
            account.isEmailVerified = isProven
            try write.transaction.save(account)
            try write.changeAddress(of: &account, to: try #require(EmailAddress("new@example.org")), isVerified: true)
            #expect(account.email == "new@example.org" && account.initialEmail == "ana@example.org")
            #expect(write.mails.map(\.to) == (isProven ? ["ana@example.org"] : []))
            #expect(write.mails.allSatisfy { $0.kind == .recoverEmail })
        }
    }

    @Test func deletion_isAnnounced_once() throws {
        try write { write in
            _ = try write.begin(Account(id: "ana", createdAt: 0), provider: "anonymous")
            #expect(try write.delete("ana") == true)
            #expect(try write.delete("ana") == false)
            #expect(write.changes == [AccountChange("ana", .deleted)])
        }
    }
}
