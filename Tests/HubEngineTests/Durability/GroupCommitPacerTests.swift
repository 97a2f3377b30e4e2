@testable import HubEngine
import Journal
import JSONTree
import Scheduling
import Synchronization
import TestSupport
import Testing

/// When net loops pause because many commits wait for the log.
@Suite(.timeLimit(.minutes(30))) struct GroupCommitPacerTests {
    private func limits(commits: Int = 40, us: Int = 100, waitUs: Int = 400) -> EngineLimits {
        var limits = EngineLimits()
        (limits.crowdCommits, limits.crowdPauseUs, limits.crowdWaitUs, limits.crowdSlowMs) = (commits, us, waitUs, 10)
        return limits
    }

    @Test func defaults_areThoseOfTheDocuments() {
        let limits = EngineLimits()
        #expect((limits.crowdCommits, limits.crowdPauseUs, limits.crowdWaitUs) == (12, 150, 800) && limits.crowdSlowMs == 4)
    }

    /// The pause and its end, after many batches that each waited `waitNs`, with this many commits waiting since 7 s.
    private func pause(_ commits: Int, waitNs: Int64, _ limits: EngineLimits) -> (us: Int, until: Int64) {
        var crowd = GroupCommitPacer()
        for _ in 0..<200 { crowd.becameDurable(afterNs: waitNs) }
        crowd.handedOver(waiting: commits, now: 7_000_000_000, limits)
        return crowd.pause(behind: 7_000_000_000, limits)
    }

    @Test func fewCommits_areNoCrowd_howeverLongTheyWait() {
        #expect(pause(39, waitNs: 5_000_000, limits()).until < 0)
        #expect(pause(40, waitNs: 5_000_000, limits()) == (400, 7_010_000_000))
        #expect(pause(40, waitNs: 5_000_000, limits(commits: 41)).until < 0)
    }

    @Test func pause_isAsLongAsABatchWaits_andNoLongerThanTheLimit() {
        #expect((249...250).contains(pause(100, waitNs: 250_000, limits()).us))
        #expect(pause(100, waitNs: 250_000, limits(waitUs: 200)).us == 200)
        #expect(pause(100, waitNs: 250_000, limits(us: 0)).us == 0)
    }

    @Test func pause_behindACommitThatIsDone_isShorter() {
        var crowd = GroupCommitPacer()
        for _ in 0..<200 { crowd.becameDurable(afterNs: 250_000) }
        crowd.handedOver(waiting: 40, now: 7_000_000_000, limits())
        #expect(crowd.pause(behind: nil, limits()) == (100, 7_020_000_000))
        #expect((249...250).contains(crowd.pause(behind: nil, limits(us: 300)).us))
        #expect(crowd.pause(behind: nil, limits(us: 0)).us == 0)
    }

    @Test func crowd_isForgotten_20msLater_howeverLargeItWas() {
        var crowd = GroupCommitPacer()
        crowd.becameDurable(afterNs: 250_000)
        crowd.handedOver(waiting: 100_000, now: 1_000_000, limits())
        crowd.handedOver(waiting: 39, now: 19_000_000, limits())
        #expect(crowd.pause(behind: 19_000_000, limits()).until == 21_000_000)
    }

    @Test func slowLog_orOneThatHangs_hasNone() {
        #expect(pause(100, waitNs: 9_900_000, limits()).us == 400)
        #expect(pause(100, waitNs: 10_100_000, limits()).us == 0)
        var crowd = GroupCommitPacer()
        crowd.becameDurable(afterNs: 250_000)
        for second: Int64 in 1...3 { crowd.handedOver(waiting: 100, now: second * 1_000_000_000, limits()) }
        #expect(crowd.pause(behind: 1_000_000_000, limits()).until == 1_010_000_000, "the first of them waits since then")
    }

    @Test func line_tellsOfACrowd_for20ms_andNotWhileTheLogHangs() {
        let bench = Bench(limits: limits(commits: 3))
        func isPausing() -> Bool {
            bench.run {
                bench.durability.pauseUs.load(ordering: .relaxed) > 0
                    && bench.context.scheduler.steadyNs < bench.durability.pausesUntil.load(ordering: .relaxed)
            }
        }
        func finish(_ commits: Int) -> Bool {
            bench.run {
                for _ in 0..<commits { bench.batch.append([], pending: [], as: bench.content.skip()) }
                bench.durability.finishBatch()
            }
            return isPausing()
        }
        func complete() -> Bool {
            bench.time.advance(ms: 1)
            bench.log.complete()
            return isPausing()
        }
        #expect(!finish(3), "how long a batch waits is not known")
        #expect(complete(), "a moment ago three have waited")
        #expect(finish(1))
        #expect(finish(1))
        #expect(complete())
        #expect(complete())
        bench.time.advance(ms: 20)
        #expect(!finish(2))
        #expect(finish(1), "three wait")
        bench.time.advance(ms: 10)
        #expect(!isPausing(), "the log hangs")
        #expect(!finish(1))
        bench.run { _ = bench.durability.giveUp() }
        #expect(isPausing(), "what was given up waits no more")
        bench.time.advance(ms: 20)
        #expect(!isPausing())
    }
}
