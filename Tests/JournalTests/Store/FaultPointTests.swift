import Synchronization
import Testing

@testable import Journal
@testable import SQLiteJournal

@Suite(.timeLimit(.minutes(30))) struct FaultPointTests {
    @Test func fault_ofTheEnvironment_isAPointAndAPassage() {
        #expect(FaultPoint.Armed("commit.before").map { (
            $0.point, $0.left.load(ordering: .relaxed)) } ?? (.afterCommit, 0) == (.beforeCommit, 1))
        #expect(FaultPoint.Armed("commit.after:20").map { (
            $0.point, $0.left.load(ordering: .relaxed)) } ?? (.beforeCommit, 0) == (.afterCommit, 20))
        for text in ["", ":", "commit", "commit.after:", "commit.after:0", "commit.after:x", "commit.after:-1", "x:3"] {
            #expect(FaultPoint.Armed(text) == nil)
        }
    }
}
