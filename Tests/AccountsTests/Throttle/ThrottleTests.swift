import DispatchNet
import Scheduling
import Testing
import TestSupport

@testable import Accounts

@Suite(.timeLimit(.minutes(30))) struct ThrottleTests {
    private let settings = ThrottleSettings()

    private func throttle(_ change: (inout ThrottleSettings) -> Void = { _ in }) -> Throttle {
        var settings = settings
        change(&settings)
        return Throttle(settings)
    }

    /// One wrong password.
    /// - Returns: the wait, if it was refused.
    private func fail(_ throttle: inout Throttle, _ who: String = "ana", from peer: String = "192.0.2.1", at now: Int64) -> Int64? {
        throttle.admitPassword(of: who, from: peer, now: now)
    }

    @Test func check25_account_waitsLonger_withEachFailureAfterTheFifth() {
        var throttle = throttle { $0.failuresOfPair = .init(1_000, perMs: 1) }
        var now: Int64 = 1_000_000
        for _ in 0..<5 { #expect(fail(&throttle, at: now) == nil) }
        for delay in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] as [Int64] {
            #expect(throttle.admitPassword(of: "ana", from: "192.0.2.1", now: now) == delay * 1000)
            #expect(throttle.admitPassword(of: "ana", from: "203.0.113.9", now: now + delay * 1000 - 1) == 1)
            now += delay * 1000
            #expect(fail(&throttle, at: now) == nil)
        }
        #expect(throttle.admitPassword(of: "bob", from: "192.0.2.1", now: now) == nil)
    }

    @Test func account_isFree_afterQuietWindow() {
        var throttle = throttle()
        for _ in 0..<5 { _ = fail(&throttle, at: 0) }
        let later = 1_000 + settings.windowMs
        for _ in 0..<5 { #expect(fail(&throttle, at: later) == nil) }
        #expect(fail(&throttle, at: later) == 1_000)
    }

    @Test func account_isFree_afterSuccess_andAfterReset() {
        var throttle = throttle()
        for _ in 0..<4 { _ = fail(&throttle, at: 0) }
        #expect(throttle.admitPassword(of: "ana", from: "192.0.2.1", now: 0) == nil)
        throttle.passwordPassed(of: "ana", from: "192.0.2.1")
        for _ in 0..<5 { #expect(fail(&throttle, at: 0) == nil) }
        #expect(fail(&throttle, at: 0) != nil)
        throttle.lift("ana")
        #expect(fail(&throttle, from: "198.51.100.7", at: 0) == nil)
    }

    /// Many concurrent guesses do not help: each counts before its password is checked.
    @Test func account_admitsFive_ofManyAtOnce() {
        var throttle = throttle()
        let admitted = (0..<200).filter { throttle.admitPassword(of: "ana", from: "192.0.2.\($0)", now: 0) == nil }
        #expect(admitted.count == 5)
        for i in admitted { throttle.passwordWithdrawn(of: "ana", from: "192.0.2.\(i)", now: 0) }
        #expect(throttle.admitPassword(of: "ana", from: "192.0.2.1", now: 0) == nil)
    }

    /// Nor do many concurrent names from one network, none of which has failed yet.
    @Test func network_admitsAHundred_ofManyNamesAtOnce() {
        var throttle = throttle()
        let admitted = (0..<300).filter { throttle.admitPassword(of: "user\($0)", from: "192.0.2.1", now: 0) == nil }
        #expect(admitted.count == 100)
        #expect(throttle.admitPassword(of: "another", from: "192.0.2.2", now: 0) == nil)
        // A right password is no failure of the network, nor is one that was not checked.
        throttle.passwordPassed(of: "user0", from: "192.0.2.1")
        throttle.passwordWithdrawn(of: "user1", from: "192.0.2.1", now: 0)
        for i in 0..<2 { #expect(throttle.admitPassword(of: "late\(i)", from: "192.0.2.1", now: 0) == nil) }
        #expect(throttle.admitPassword(of: "late2", from: "192.0.2.1", now: 0) == 9_000)
    }

    @Test func stretching_isLimitedByNetwork_rightOrNew() {
        var throttle = throttle()
        for _ in 0..<300 {
            #expect(throttle.admitPassword(of: "ana", from: "192.0.2.1", now: 0) == nil)
            throttle.passwordPassed(of: "ana", from: "192.0.2.1")
            #expect(throttle.admitNewPassword(from: "192.0.2.1", now: 0) == nil)
        }
        #expect(throttle.admitPassword(of: "ana", from: "192.0.2.1", now: 0) == 1_500)
        #expect(throttle.admitNewPassword(from: "192.0.2.1", now: 0) == 1_500)
        #expect(throttle.admitNewPassword(from: "192.0.2.2", now: 0) == nil)
        #expect(throttle.admitNewPassword(from: "192.0.2.1", now: 1_500) == nil)
    }

    @Test func network_hasItsShareOfTheQueue() {
        var throttle = throttle()
        for i in 0..<32 { #expect(throttle.enter(from: "2001:db8::\(i)") == true) }
        #expect(throttle.enter(from: "2001:db8::ffff") == false)
        #expect(throttle.enter(from: "2001:db8:0:1::") == true)
        throttle.leave(from: "2001:db8::1")
        #expect(throttle.enter(from: "2001:db8::1") == true)
        #expect(throttle.enter(from: "2001:db8::1") == false)
        for _ in 0..<32 { throttle.leave(from: "2001:db8::1") }
        for i in 0..<32 { #expect(throttle.enter(from: "2001:db8::\(i)") == true) }
    }

    @Test func account_isLocked_afterAHundredInARow_howeverSlowly() {
        var throttle = throttle()
        var now: Int64 = 0
        for _ in 0..<100 {
            #expect(fail(&throttle, at: now) == nil)
            now += settings.longestDelayMs + settings.windowMs
        }
        #expect(throttle.admitPassword(of: "ana", from: "192.0.2.1", now: now) ?? 0 > 20 * 3_600_000)
        var lifted = throttle
        lifted.lift("ana")
        #expect(lifted.admitPassword(of: "ana", from: "192.0.2.1", now: now) == nil)
        now += settings.lockMs
        #expect(throttle.admitPassword(of: "ana", from: "192.0.2.1", now: now) == nil)
    }

    @Test func pair_andAddress_areLimited_acrossAccounts() {
        var throttle = throttle { $0.freeFailures = 1_000_000; $0.mostFailures = 1_000_000 }
        for _ in 0..<20 { #expect(fail(&throttle, at: 0) == nil) }
        #expect(fail(&throttle, at: 0) == 45_000)
        #expect(fail(&throttle, from: "192.0.2.2", at: 0) == nil)
        for i in 0..<80 { #expect(fail(&throttle, "user\(i)", at: 0) == nil) }
        #expect(fail(&throttle, "another", at: 0) == 9_000)
        #expect(fail(&throttle, "another", from: "192.0.2.2", at: 0) == nil)
        #expect(fail(&throttle, "another", at: 9_000) == nil)
    }

    @Test func limits_hold_fromBothSides() {
        var throttle = throttle()
        for i in 0..<100 { #expect(throttle.admitSignUp(from: "2001:db8:0:1::\(i)", now: 0) == nil) }
        #expect(throttle.admitSignUp(from: "2001:db8:0:1::ffff", now: 0) == 36_000)
        #expect(throttle.admitSignUp(from: "2001:db8:0:2::1", now: 0) == nil)
        for _ in 0..<5 { #expect(throttle.admitMail(to: "ana@x.org", from: "192.0.2.1", now: 0) == nil) }
        #expect(throttle.admitMail(to: "ana@x.org", from: "192.0.2.2", now: 0) == 720_000)
        for i in 0..<15 { #expect(throttle.admitMail(to: "user\(i)@x.org", from: "192.0.2.1", now: 0) == nil) }
        #expect(throttle.admitMail(to: "one-more@x.org", from: "192.0.2.1", now: 0) == 180_000)
        for _ in 0..<10 { #expect(throttle.admitCode(from: "192.0.2.1", now: 0) == nil) }
        #expect(throttle.admitCode(from: "192.0.2.1", now: 5_999) == 1)
        #expect(throttle.admitCode(from: "192.0.2.1", now: 6_000) == nil)
    }

    @Test func nothing_isCounted_whenOff() {
        var throttle = throttle { $0.isOn = false }
        for _ in 0..<1_000 {
            #expect(fail(&throttle, at: 0) == nil)
            #expect(throttle.admitSignUp(from: "192.0.2.1", now: 0) == nil)
            #expect(throttle.admitCode(from: "192.0.2.1", now: 0) == nil)
            #expect(throttle.admitNewPassword(from: "192.0.2.1", now: 0) == nil)
            #expect(throttle.enter(from: "192.0.2.1") == true)
            #expect(throttle.admitMail(to: "a@x.org", from: "192.0.2.1", now: 0) == nil)
        }
        #expect(throttle.count == 0)
    }

    /// The bucket against its definition: at most `count` within any period, and never refused below the steady rate.
    @Test func bucket_agrees_withCountingTokens() {
        var random = SeededRandom(11)
        for _ in 0..<200 {
            let rate = ThrottleSettings.Rate(
                Int64.random(in: 1...10, using: &random), perMs: 1_000 * Int64.random(in: 1...5, using: &random))
            let interval = rate.intervalMs
            var bucket = TokenBucket(fullAt: 0)
            // The model: tokens in units of 1/interval, refilled by one per millisecond.
            var (tokens, now) = (rate.count * interval, Int64(0))
            for _ in 0..<300 {
                let step = Int64.random(in: 0...(2 * interval), using: &random)
                now += step
                tokens = min(tokens + step, rate.count * interval)
                let isAllowed = tokens >= interval
                #expect((bucket.wait(rate.bucket, now: now) == 0) == isAllowed)
                if isAllowed { bucket.record(rate.bucket, now: now); tokens -= interval } else {
                    #expect(bucket.wait(rate.bucket, now: now) == interval - tokens)
                }
            }
        }
    }

    @Test func memory_isBounded_andTheLockedStayLocked() {
        var throttle = throttle {
            $0.mostSubjects = 200
            $0.failuresOfAddress = .init(1_000_000, perMs: 1)
            $0.passwordsOfAddress = .init(1_000_000, perMs: 1)
        }
        for _ in 0..<5 { _ = fail(&throttle, "victim", at: 0) }
        for i in 0..<5_000 { _ = fail(&throttle, "noise\(i)", from: "192.0.2.9", at: 0) }
        #expect(throttle.count <= 4 * 200)
        #expect(fail(&throttle, "victim", from: "198.51.100.1", at: 0) == 1_000)
    }

    @Test func state_survives_aRestart() {
        var throttle = throttle()
        for _ in 0..<6 { _ = fail(&throttle, at: 1_000) }
        for _ in 0..<10 { _ = throttle.admitCode(from: "192.0.2.1", now: 1_000) }
        let rows = throttle.drainChanges(now: 1_000, wall: 5_000_000)
        #expect(throttle.drainChanges(now: 1_000, wall: 5_000_000).isEmpty)
        #expect(!rows.contains { $0.subject.contains("ana") || $0.subject.contains("192") })
        var restarted = self.throttle()
        restarted.restore(rows, now: 1_001, wall: 5_000_001)
        #expect(restarted.admitPassword(of: "ana", from: "192.0.2.1", now: 1_001) == 999)
        #expect(restarted.admitCode(from: "192.0.2.1", now: 1_001) == 5_999)
        // A success deletes the rows of the account; those of the network stay.
        restarted.passwordPassed(of: "ana", from: "192.0.2.1")
        let changes = restarted.drainChanges(now: 1_001, wall: 5_000_001)
        #expect(changes.filter { $0.state == nil }.map { $0.subject.prefix(1) }.sorted() == ["a", "p"])
        #expect(changes.filter { $0.state != nil }.map { $0.subject.prefix(1) } == ["n"])
        // Expired state is neither restored nor kept.
        var late = self.throttle()
        late.restore(rows, now: 0, wall: 1 << 45)
        #expect(late.count == 0 && late.drainChanges(now: 0, wall: 1 << 45).count == rows.count)
    }

    /// State written while the clock was a day ahead counts as written now.
    @Test func state_ofTheFuture_isBroughtBackToNow() {
        var throttle = throttle()
        for _ in 0..<6 { _ = fail(&throttle, at: 1_000) }
        for _ in 0..<10 { _ = throttle.admitCode(from: "192.0.2.1", now: 1_000) }
        let ahead: Int64 = 1_790_000_000_000 + 86_400_000
        let rows = throttle.drainChanges(now: 1_000, wall: ahead)
        var restarted = self.throttle()
        restarted.restore(rows, now: 50, wall: ahead - 86_400_000)
        #expect(restarted.admitPassword(of: "ana", from: "192.0.2.1", now: 50) == 1_000)
        #expect(restarted.admitCode(from: "192.0.2.1", now: 50) == 6_000)
        // Written with the right time from now on, so that the next process reads it correctly.
        let again = restarted.drainChanges(now: 50, wall: ahead - 86_400_000)
        #expect(again.count == rows.count && again.allSatisfy { $0.writtenAt == ahead - 86_400_000 })
        var third = self.throttle()
        third.restore(again, now: 7_000, wall: ahead - 86_400_000 + 1_000)
        #expect(third.admitPassword(of: "ana", from: "192.0.2.1", now: 7_000) == nil)
        #expect(third.admitCode(from: "192.0.2.1", now: 7_000) == 5_000)
    }

    @Test func damagedRows_areLetGo() {
        var throttle = throttle()
        let name = Subject(.account, "ana").text
        throttle.restore(
            [
                .init(subject: "", state: [], writtenAt: 0), .init(subject: "x" + name.dropFirst(), state: [1], writtenAt: 0),
                .init(subject: name, state: [1, 2, 3], writtenAt: 0),
                .init(subject: name, state: [UInt8](repeating: 0x7F, count: 32), writtenAt: 0),
                .init(subject: Subject(.code, "192.0.2.1").text, state: [UInt8](repeating: 0x7F, count: 8), writtenAt: 0),
            ], now: 0, wall: 0)
        #expect(throttle.count == 0)
        #expect(fail(&throttle, at: 0) == nil)
    }

    @Test(arguments: [
        ("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("2001:db8:1:2:3:4:5:6", "20010db800010002/64"),
        ("[2001:db8:1:2::9]", "20010db800010002/64"), ("fe80::1%eth0", "fe80000000000000/64"), ("unix", "unix"), ("", ""),
    ])
    func peer_isItsNetwork(_ peer: String, _ network: String) {
        #expect(NetworkAddress.network(of: peer) == network)
    }
}
