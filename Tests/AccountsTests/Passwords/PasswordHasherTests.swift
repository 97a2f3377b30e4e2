import Glibc
import Synchronization
import Testing
import TestSupport

@testable import Accounts
@testable import Tokens

@Suite(.timeLimit(.minutes(30))) struct PasswordHasherTests {
    private let clock = FakeClock()

    @Test func password_isRight_afterHashing() async throws {
        let hasher = PasswordHasher(.quick)
        let stored = try await hasher.hash("correct horse")
        #expect(try await hasher.verify("correct horse", stored) == .right)
        #expect(try await hasher.verify("Correct horse", stored) == .wrong)
        #expect(try await hasher.verify("correct horse ", stored) == .wrong)
        #expect(try await hasher.verify("", stored) == .wrong)
        #expect(try await hasher.hash("correct horse") != stored)
    }

    /// The same letters typed on another system may arrive decomposed.
    @Test func password_isRight_inBothUnicodeForms() async throws {
        let hasher = PasswordHasher(.quick)
        let stored = try await hasher.hash("κωδικ\u{03CC}ς-é")
        #expect(try await hasher.verify("κωδικ\u{03BF}\u{0301}ς-e\u{0301}", stored) == .right)
    }

    @Test func password_isWrong_withoutAccountOrHash() async throws {
        let hasher = PasswordHasher(.quick)
        for stored in [nil, "", "plain text", "$scrypt$ln=4,r=8,p=1$AAAA$AAAA"] as [String?] {
            #expect(try await hasher.verify("correct horse", stored) == .wrong)
            #expect(try await hasher.verify("", stored) == .wrong)
        }
    }

    @Test func check36_column_holdsNoFastHash() async throws {
        let standard = PasswordSettings().scrypt
        #expect(standard.work >= 1 << 19 && standard.bytes >= 16 << 20)
        var settings = PasswordSettings.quick
        settings.scrypt = try #require(ScryptParameters(ln: 5, r: 8, p: 3))
        let stored = try await PasswordHasher(settings).hash("correct horse")
        guard case .scrypt(settings.scrypt, nil, let salt, let hash) = PasswordHash(stored) else {
            return #expect(Bool(false), "\(stored)")
        }
        #expect(salt.count == 16 && hash.count == 32)
    }

    @Test func check37_hash_isOutdated_whenParametersRose() async throws {
        let old = try await PasswordHasher(.quick).hash("correct horse")
        var settings = PasswordSettings.quick
        settings.scrypt = try #require(ScryptParameters(ln: 5, r: 8, p: 1))
        let hasher = PasswordHasher(settings)
        #expect(try await hasher.verify("correct horse", old) == .rightButOutdated)
        #expect(try await hasher.verify("wrong", old) == .wrong)
        #expect(try await hasher.verify("correct horse", try await hasher.hash("correct horse")) == .right)
        // But not the other way round: lower parameters weaken no existing hash.
        #expect(try await PasswordHasher(.quick).verify("correct horse", try await hasher.hash("correct horse")) == .right)
    }

    @Test func pepper_isNeeded_onceItWentIn() async throws {
        var settings = PasswordSettings.quick
        let pepper = try #require(PasswordPepper(key: [UInt8](repeating: 7, count: 32), keyID: "k1"))
        settings.pepper = pepper
        let stored = try await PasswordHasher(settings).hash("correct horse")
        #expect(try await PasswordHasher(settings).verify("correct horse", stored) == .right)
        #expect(try await PasswordHasher(.quick).verify("correct horse", stored) == .wrong)
        // A hash from before the pepper is accepted once more and replaced.
        let bare = try await PasswordHasher(.quick).hash("correct horse")
        #expect(try await PasswordHasher(settings).verify("correct horse", bare) == .rightButOutdated)
        #expect(PasswordPepper(key: [1, 2, 3], keyID: "k1") == nil)
    }

    @Test func queue_refuses_whenFull() async throws {
        var settings = PasswordSettings.quick
        (settings.workers, settings.waiting) = (1, 3)
        settings.scrypt = try #require(ScryptParameters(ln: 11, r: 8, p: 1))
        let hasher = PasswordHasher(settings)
        let outcomes = await withTaskGroup(of: String?.self) { group in
            for _ in 0..<40 {
                group.addTask {
                    do throws(AccountError) { _ = try await hasher.hash("correct horse"); return nil } catch { return error.code }
                }
            }
            return await group.reduce(into: [String?]()) { $0.append($1) }
        }
        #expect(outcomes.contains(nil))
        #expect(outcomes.allSatisfy { $0 == nil || $0 == "TOO_MANY_ATTEMPTS_TRY_LATER" })
        // No work is left behind: it continues.
        #expect(try await hasher.verify("a", try await hasher.hash("a")) == .right)
        #expect(hasher.depth.waiting == 0)
    }

    @Test func workers_admitExactly_whatMayWait() {
        let workers = PasswordWorkers(threads: 1, waiting: 2, seconds: 60, priority: .ordinary, clock.scheduler)
        let (gate, done) = (Gate(), Gate())
        // One is running (the gate says so), two wait, the next is refused.
        let started = Gate()
        #expect(workers.submit { _ in started.open(); gate.wait() })
        started.wait()
        #expect(workers.submit { _ in })
        #expect(workers.submit { _ in done.open() })
        #expect(!workers.submit { _ in })
        #expect(workers.depth.waiting == 2 && workers.depth.busy == 1)
        gate.open()
        done.wait()
    }

    /// The scheduling class of the working thread (0: ordinary, 5: `SCHED_IDLE`), and its niceness.
    @Test(arguments: [(PasswordWorkers.Priority.ordinary, Int32(0), Int32(0)), (.low, 0, 10), (.idle, 5, 0)])
    func workers_haveTheirPriority(_ priority: PasswordWorkers.Priority, _ policy: Int32, _ niceness: Int32) {
        let workers = PasswordWorkers(threads: 1, waiting: 1, seconds: 600, priority: priority, clock.scheduler)
        let own = getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0)
        let (found, done) = (Found(), Gate())
        #expect(workers.submit { _ in
            found.value.withLock { $0 = [sched_getscheduler(0), getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0)] }
            done.open()
        })
        done.wait()
        // On a machine that runs the tests at a lower priority, all threads inherit that.
        #expect(found.value.withLock { $0 } == [policy, priority == .low ? 10 : own + niceness])
    }

    private final class Found: Sendable {
        let value = Mutex<[Int32]>([])
    }

    /// The idle-priority thread is blocked here, as it would be by other programs on every core.
    @Test func password_isHashedByAnotherThread_whenItIsOverdue() async throws {
        var settings = PasswordSettings.quick
        (settings.yields, settings.workers, settings.waiting) = (true, 1, 1)
        let hasher = PasswordHasher(settings, clock.scheduler)
        let (started, gate) = (Gate(), Gate())
        #expect(hasher.workers.submit { _ in started.open(); gate.wait() })
        started.wait()
        async let stored = hasher.hash("correct horse")
        // Its timer is set by then.
        while hasher.depth.waiting == 0 { await Task.yield() }
        clock.advance(ms: PasswordHasher.overdueMs)
        let hash = try await stored
        // That one still waits for the first thread; more than may wait are answered meanwhile.
        for _ in 0..<3 { _ = try await hasher.hash("correct horse") }
        gate.open()
        #expect(try await PasswordHasher(.quick).verify("correct horse", hash) == .right)
    }

    @Test func work_isNotDone_afterItsTime() {
        let workers = PasswordWorkers(threads: 1, waiting: 2, seconds: 25, priority: .ordinary, clock.scheduler)
        let (started, gate, done) = (Gate(), Gate(), Gate())
        let inTime = Mutex<[Bool]>([])
        #expect(workers.submit { _ in started.open(); gate.wait() })
        started.wait()
        #expect(workers.submit { isInTime in inTime.withLock { $0.append(isInTime) } })
        clock.advance(ms: 1)
        #expect(workers.submit { isInTime in inTime.withLock { $0.append(isInTime) }; done.open() })
        clock.advance(seconds: 25)
        gate.open()
        done.wait()
        #expect(inTime.withLock { $0 } == [false, true])
    }

    @Test func workers_finishWhatWasTaken_beforeTheyEnd() {
        let count = Mutex(0)
        let done = Gate()
        do {
            let workers = PasswordWorkers(threads: 2, waiting: 100, seconds: 60, priority: .ordinary, clock.scheduler)
            for _ in 0..<50 { #expect(workers.submit { _ in if count.withLock({ $0 += 1; return $0 }) == 50 { done.open() } }) }
        }
        done.wait()
        #expect(count.withLock { $0 } == 50)
    }

    @Test func policy_refuses_shortLongAndCommon() {
        let settings = PasswordSettings(cores: 1)
        #expect(PasswordWeakness("abc3567", settings)?.text == "Password should be at least 8 characters")
        #expect(PasswordWeakness("kωδικ8ςx", settings) == nil)
        #expect(PasswordWeakness(String(repeating: "ab", count: 2048), settings) == nil)
        #expect(PasswordWeakness(String(repeating: "ab", count: 2048) + "c", settings) == .tooLong(4096))
        for common in ["password", "PassWord1", "12345678", "87654321", "aaaaaaaa", "abcdefgh", "qwertyuiop", "contraseña"] {
            #expect(PasswordWeakness(common, settings) == .common, "\(common)")
        }
        #expect(PasswordWeakness("password", .quick) == nil)
        #expect(PasswordWeakness("12345", .quick) == .tooShort(6))
    }
}
