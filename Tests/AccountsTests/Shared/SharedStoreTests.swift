import Dispatch
import Foundation
import GRDB
import Journal
import Logging
import Synchronization
import Testing
import TestSupport

@testable import Accounts
@testable import Tokens

/// Stores that follow one log.
@Suite(.timeLimit(.minutes(30))) struct SharedStoreTests {
    private let log = MemorySharedLog()

    private func store(_ folder: String? = nil, _ follower: MemorySharedLog.Follower? = nil) throws -> AccountStore {
        let store = try AccountStore(folder: folder)
        try store.join(follower ?? log.follower(), logger: .silent) {}
        return store
    }

    /// The whole content of a store, except its log position.
    private func content(_ store: AccountStore) throws -> [[DatabaseValue]] {
        try store.applyArrived()
        return try store.database.read { db in
            try ["account", "provider", "session", "departed", "code", "signing_key", "throttle", "removal", "audit"].flatMap { table in
                try Row.fetchAll(db, sql: "SELECT * FROM \(table)").map { [table.databaseValue] + $0.databaseValues }
            }
        }
    }

    private func account(_ id: String) -> Account { Account(id: id, createdAt: 7) }

    /// One random transaction, like those of the service.
    private func change(_ transaction: AccountTransaction, _ random: inout SeededRandom) throws {
        let now = Int64.random(in: 1_000...2_000, using: &random)
        let id = "u\(Int.random(in: 0..<12, using: &random))"
        let known = try transaction.account(.id(id))
        try transaction.audit(.profileChanged, id, peer: "p", at: now)
        switch Int.random(in: 0..<10, using: &random) {
        case 0:
            _ = try transaction.deleteAccount(id, at: now)
        case 1, 2:
            var account = known ?? account(id)
            account.email = Bool.random(using: &random) ? "\(id)@x.org" : nil
            account.providers = (0..<Int.random(in: 0..<3, using: &random)).map { LinkedProvider(id: "p\($0)", rawID: id) }
            account.customClaims = "{\"n\":\(now)}"
            try transaction.save(account)
        case 3, 4, 5:
            guard known != nil else { return try transaction.save(account(id)) }
            let name = "s\(Int.random(in: 0..<1 << 40, using: &random))"
            let session = AccountSession(id: name, uid: id, provider: "p", claims: nil, authTime: 1, now: now, userAgent: nil, peer: "x")
            try transaction.add(session, tokenHash: Array(name.utf8))
            _ = try transaction.endSessions(of: id, beyond: 2, beside: name)
        case 6:
            guard known != nil else { return }
            let code = MailedCode(kind: .resetPassword, uid: id, email: "\(id)@x.org", newEmail: nil, expiresAt: now + 5)
            try transaction.add(code, hash: Array("\(now) \(id)".utf8), at: now)
        case 7: try transaction.save([Throttle.Row(subject: id, state: now % 3 == 0 ? nil : [1, UInt8(now % 100)], writtenAt: now)])
        case 8:
            _ = try transaction.removeAudit(before: now - 300, limit: 5)
            try transaction.removeSessions(endedBefore: now - 500, idleSince: now - 800)
            try transaction.removeCodes(endedBefore: now)
        default:
            try transaction.endSessions(of: id)
            try transaction.moveTimes(1_000...1_100, by: 3)
            if let session = try transaction.sessions(of: id).first {
                try transaction.use(session.id, of: id, SessionUse(uid: id, at: now, peer: nil))
            }
        }
    }

    @Test(arguments: [1, 2, 3, 4] as [UInt64]) func stores_endEqual_whateverEachDoes(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let followers = (0..<3).map { _ in log.follower() }
        let stores = try followers.map { try store(nil, $0) }
        for follower in followers { follower.isSlow.store(true, ordering: .relaxed) }
        for _ in 0..<400 {
            let store = try #require(stores.randomElement(using: &random))
            // Two accounts may claim one address: then the whole transaction is rolled back.
            var chance = random
            try? store.transaction { try change($0, &chance) }
            random = chance
        }
        for follower in followers { follower.isSlow.store(false, ordering: .relaxed) }
        let first = try content(stores[0])
        #expect(first.count > 50)
        for other in stores.dropFirst() { #expect(try content(other) == first) }
        #expect(stores.allSatisfy { $0.shared?.skipped == 0 })
        #expect(stores.reduce(0) { $0 + ($1.shared?.conflicts ?? 0) } > 100)
        // A store that joins later has the same content.
        #expect(try content(store()) == first)
    }

    @Test func transactions_thatRace_areEachMadeOnceAndOfWhatWasThere() async throws {
        let first = try store()
        try first.transaction { try $0.save(account("a")) }
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<3 {
                group.addTask {
                    do {
                        let own = try store()
                        for _ in 0..<50 {
                            try own.transaction { transaction in
                                var account = try #require(try transaction.account(.id("a")))
                                account.lastLoginAt = (account.lastLoginAt ?? 0) + 1
                                try transaction.save(account)
                            }
                        }
                    } catch { Issue.record("\(error)") }
                }
            }
        }
        try first.applyArrived()
        #expect(try first.read { try $0.account(.id("a"))?.lastLoginAt } == 150)
    }

    @Test func transaction_thatChangesNothing_isNotInTheLog() throws {
        let store = try store()
        try store.transaction { try $0.removeCodes(endedBefore: 9) }
        _ = try store.transaction { try $0.account(.id("a")) }
        #expect(throws: AccountError.self) {
            try store.transaction { transaction in
                try transaction.save(account("a"))
                throw AccountError("EMAIL_EXISTS")
            }
        }
        #expect(log.records.isEmpty)
        #expect(try store.read { try $0.accountCount() } == 0)
    }

    @Test func record_whoseAnswerIsLost_isMadeWhenItArrives() throws {
        let follower = log.follower()
        let store = try store(nil, follower)
        var heard: [AccountChange] = []
        store.shared?.onRecord = { heard += $0.changes }
        follower.fault.withLock { $0 = .silent }
        #expect(throws: AccountStoreFault.self) {
            try store.transaction {
                try $0.save(account("a"))
                $0.recorder?.record.changes = [AccountChange("a", .revoked)]
            }
        }
        #expect(try store.read { try $0.accountCount() } == 0)
        try store.transaction { try $0.save(account("b")) }
        #expect(try store.read { try $0.accountCount() } == 2)
        #expect(heard == [AccountChange("a", .revoked)])
        #expect(log.records.count == 2)
    }

    @Test func process_thatEndsBetweenLogAndCommit_hasItAfterTheStart() throws {
        let folder = try TemporaryFolder()
        let follower = log.follower()
        let before = try store(folder.path, follower)
        try before.transaction { try $0.save(account("a")) }
        follower.fault.withLock { $0 = .silent }
        #expect(throws: AccountStoreFault.self) { try before.transaction { try $0.save(account("b")) } }
        try before.close()
        let after = try store(folder.path)
        #expect(try after.read { try $0.accountIDs() } == ["a", "b"])
        try after.transaction { try $0.save(account("c")) }
        #expect(try content(after) == content(store()))
        try after.close()
    }

    @Test func log_thatIsAway_refusesChanges_andLeavesReads() throws {
        let follower = log.follower()
        let store = try store(nil, follower)
        try store.transaction { try $0.save(account("a")) }
        follower.fault.withLock { $0 = .away }
        #expect(throws: AccountStoreFault.self) { try store.transaction { try $0.save(account("b")) } }
        #expect(try store.read { try $0.accountIDs() } == ["a"])
        follower.fault.withLock { $0 = nil }
        try store.transaction { try $0.save(account("b")) }
        #expect(log.records.count == 2)
    }

    // MARK: Joining

    @Test func firstHub_bringsItsAccountsAlong_andOneWithOthersIsRefused() throws {
        let folder = try TemporaryFolder()
        let alone = try AccountStore(folder: folder.path)
        var random = SeededRandom(5)
        for _ in 0..<200 {
            var chance = random
            try? alone.transaction { try change($0, &chance) }
            random = chance
        }
        try alone.transaction { try $0.save(account("z")) }
        try alone.close()
        let first = try store(folder.path)
        #expect(log.records.count == 1)
        #expect(try content(first) == content(store()))
        try first.close()
        // Again, as a follower.
        let again = try store(folder.path)
        #expect(log.records.count == 1)
        try again.close()
        // The cluster does not have its changes made alone since then.
        let left = try AccountStore(folder: folder.path)
        try left.leave()
        try left.close()
        #expect { try store(folder.path) } throws: { error in
            if case AccountStoreFault.foreign = error { true } else { false }
        }
    }

    @Test func hubWithoutAccounts_takesThoseOfTheCluster() throws {
        let folder = try TemporaryFolder()
        let alone = try AccountStore(folder: folder.path)
        let key = try StoredSigningKey.generate(.es256, now: 1)
        try alone.transaction { try $0.setSigningKey(key, id: "own", now: 1, ended: 0) }
        try alone.close()
        try store().transaction {
            try $0.save(account("a"))
            try $0.setSigningKey(key, id: "shared", now: 1, ended: 0)
        }
        let joined = try store(folder.path)
        #expect(try joined.read { try $0.accountIDs() } == ["a"])
        #expect(try content(joined).count(where: { $0.first == "signing_key".databaseValue }) == 1)
        try joined.close()
    }

    // MARK: Strangers

    @Test func garbage_isIgnoredByAllHubs() throws {
        let stores = try (0..<2).map { _ in try store() }
        try stores[0].transaction { try $0.save(account("a")) }
        var junk = AccountRecord()
        for sql in ["INSERT INTO nowhere VALUES (1)", "UPDATE account SET id = NULL", "DELETE FROM account; DELETE FROM session"] {
            junk.statements = [.init(sql: "DELETE FROM audit", arguments: []), .init(sql: sql, arguments: [])]
            log.append(junk.encoded)
        }
        junk.statements = [.init(sql: "INSERT INTO audit (uid, time, event) VALUES (?, ?, ?)", arguments: [1.databaseValue])]
        log.append(junk.encoded)
        for bytes in [[], [1], [9, 9, 9], Array("ATTACH".utf8)] as [[UInt8]] { log.append(bytes) }
        for sql in ["ATTACH '/tmp/x' AS x", "PRAGMA synchronous = OFF", "DROP TABLE account", " DELETE FROM account"] {
            junk.statements = [.init(sql: sql, arguments: [])]
            #expect(AccountRecord(decoding: junk.encoded) == nil)
            log.append(junk.encoded)
        }
        try stores[1].transaction { try $0.save(account("b")) }
        #expect(try content(stores[0]) == content(stores[1]))
        #expect(try stores[0].read { try $0.accountIDs() } == ["a", "b"])
    }

    @Test func recordOfANewerVersion_isWaitedFor() throws {
        let store = try store()
        try store.transaction { try $0.save(account("a")) }
        var newer = AccountRecord()
        newer.statements = [.init(sql: "DELETE FROM account", arguments: [])]
        newer.schema = AccountRecord.ownSchema + 1
        log.append(newer.encoded)
        #expect { try store.transaction { try $0.save(account("b")) } } throws: { error in
            if case AccountStoreFault.newerRecord = error { true } else { false }
        }
        #expect(try store.read { try $0.accountIDs() } == ["a"])
    }

    @Test func record_comesBackAsItWasWritten_andNoBytesCrash() throws {
        var random = SeededRandom(9)
        var record = AccountRecord()
        record.statements = [
            .init(sql: "INSERT INTO x VALUES (?, ?, ?, ?, ?)", arguments: [
                .null, Int64.min.databaseValue, 0.5.databaseValue, "κ".databaseValue, Data([0, 255]).databaseValue,
            ]),
            .init(sql: "DELETE FROM y", arguments: []),
        ]
        record.changes = [
            AccountChange("a", .disabled), AccountChange("b", .sessionEnded("s"), by: "t"), AccountChange("", .claimsChanged),
            AccountChange("c", .deleted), AccountChange("d", .revoked, by: "u"),
        ]
        record.counts = [Throttle.Row(subject: "s", state: nil, writtenAt: -1), Throttle.Row(subject: "t", state: [], writtenAt: 9)]
        record.changesKeys = true
        let bytes = record.encoded
        #expect(AccountRecord(decoding: bytes) == record)
        for end in 0..<bytes.count { _ = AccountRecord(decoding: Array(bytes[..<end])) }
        for _ in 0..<20_000 {
            var damaged = bytes
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                damaged[Int.random(in: 0..<damaged.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            _ = AccountRecord(decoding: damaged)
            _ = AccountRecord(decoding: (0..<Int.random(in: 0..<64, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) })
        }
    }
}
