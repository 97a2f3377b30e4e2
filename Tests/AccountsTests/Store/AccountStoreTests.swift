import Glibc
import GRDB
import Testing

@testable import Accounts

@Suite(.timeLimit(.minutes(30))) struct AccountStoreTests {
    private func account(_ id: String, email: String? = nil) -> Account {
        var account = Account(id: id, createdAt: 1_790_000_000_123)
        account.email = email
        return account
    }

    @Test func account_comesBackAsItWasSaved() throws {
        let store = try AccountStore(folder: nil)
        var ana = account("ana", email: "ana@example.org")
        ana.isEmailVerified = true
        ana.displayName = "Ana"
        ana.photoURL = "https://x/a.png"
        ana.phoneNumber = "+306900000000"
        ana.alias = "annie"
        ana.passwordHash = "$scrypt$…"
        ana.passwordUpdatedAt = 3
        ana.lastLoginAt = 4
        ana.lastRefreshAt = 5
        ana.validSince = 6
        ana.isDisabled = true
        ana.customClaims = #"{"role":"staff"}"#
        ana.hasCustomAuth = true
        ana.hasEmailLink = true
        ana.initialEmail = "first@example.org"
        var google = LinkedProvider(id: "google.com", rawID: "1099")
        google.email = "ana@gmail.com"
        google.displayName = "A"
        google.photoURL = "u"
        google.screenName = "s"
        ana.providers = [google, LinkedProvider(id: "apple.com", rawID: "1099")]
        try store.transaction { try $0.save(ana) }
        let keys: [AccountKey] = [
            .id("ana"), .email("ana@example.org"), .phoneNumber("+306900000000"), .alias("annie"), .provider("google.com", rawID: "1099"),
            .provider("apple.com", rawID: "1099"),
        ]
        for key in keys { #expect(try store.read { try $0.account(key) } == ana) }
        ana.providers.removeFirst()
        ana.email = nil
        try store.transaction { try $0.save(ana) }
        #expect(try store.read { try $0.account(.id("ana")) } == ana)
        #expect(try store.read { try $0.account(.email("ana@example.org")) } == nil)
        #expect(try store.read { try $0.account(.provider("google.com", rawID: "1099")) } == nil)
    }

    @Test func addressOfAnotherAccount_isRefused() throws {
        let store = try AccountStore(folder: nil)
        try store.transaction { try $0.save(account("a", email: "x@example.org")) }
        #expect(throws: DatabaseError.self) { try store.transaction { try $0.save(account("b", email: "x@example.org")) } }
        #expect(try store.read { try $0.accounts(after: "", limit: 10) }.map(\.id) == ["a"])
    }

    @Test func deletion_takesSessionsWithIt() throws {
        let store = try AccountStore(folder: nil)
        let session = AccountSession(id: "s", uid: "a", provider: "password", claims: nil, authTime: 7, now: 8, userAgent: "u", peer: "p")
        try store.transaction {
            try $0.save(account("a"))
            try $0.add(session, tokenHash: [1, 2])
        }
        #expect(try store.read { try $0.session(tokenHash: [1, 2])?.session } == session)
        #expect(try store.read { try $0.sessions(of: "a") } == [session])
        #expect(try store.transaction { try $0.deleteAccount("a", at: 9) })
        #expect(try store.read { try $0.session(tokenHash: [1, 2])?.session } == nil)
        #expect(try !store.transaction { try $0.deleteAccount("a", at: 9) })
    }

    @Test func endedSession_isStillKnownByItsToken() throws {
        let store = try AccountStore(folder: nil)
        let session = AccountSession(id: "s", uid: "a", provider: "password", claims: nil, authTime: 7, now: 8, userAgent: nil, peer: nil)
        try store.transaction {
            try $0.save(account("a"))
            try $0.add(session, tokenHash: [1])
            #expect(try $0.endSession("s"))
            #expect(try !$0.endSession("s"))
        }
        #expect(try store.read { try $0.session(tokenHash: [1])?.hasEnded } == true)
        #expect(try store.read { try $0.session(id: "s") } == nil)
    }

    @Test func file_isItsOwnersAlone() throws {
        let folder = "/tmp/vigla-accounts-\(getpid())-\(UInt64.random(in: 0 ... .max))"
        mkdir(folder, 0o755)
        defer {
            for name in ["", "-wal", "-shm"] { unlink("\(folder)/accounts.sqlite\(name)") }
            rmdir(folder)
        }
        let store = try AccountStore(folder: folder)
        try store.transaction { try $0.save(account("a")) }
        for name in ["accounts.sqlite", "accounts.sqlite-wal"] {
            var info = stat()
            #expect(stat("\(folder)/\(name)", &info) == 0)
            #expect(info.st_mode & 0o777 == 0o600)
        }
        try store.close()
        #expect(try AccountStore(folder: folder).read { try $0.account(.id("a")) }?.id == "a")
    }

    @Test func fileThatIsNoStore_saysWhatToDo() throws {
        let folder = "/tmp/vigla-accounts-\(getpid())-\(UInt64.random(in: 0 ... .max))"
        mkdir(folder, 0o755)
        defer {
            for name in ["", "-wal", "-shm"] { unlink("\(folder)/accounts.sqlite\(name)") }
            rmdir(folder)
        }
        func fault() -> String {
            do {
                let store = try AccountStoreFault.around(folder) { try AccountStore(folder: folder) }
                try store.close()
                return ""
            } catch { return "\(error)" }
        }
        #expect(fault().isEmpty)
        let database = try DatabaseQueue(path: folder + "/accounts.sqlite")
        try database.write { try $0.execute(sql: "INSERT INTO grdb_migrations VALUES ('9999 of a later version')") }
        try database.close()
        #expect(fault().contains("Use the version that wrote it"))
        let file = try #require(fopen(folder + "/accounts.sqlite", "w"))
        fputs(String(repeating: "no database ", count: 1000), file)
        fclose(file)
        #expect(fault().contains("is not a Vigla data file"))
    }
}
