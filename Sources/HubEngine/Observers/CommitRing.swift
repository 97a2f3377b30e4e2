import DequeModule
import JSONTree
import Scheduling

/// The last commits of a namespace, each with the tree after it. A returning observer reads its missed commits here. Commits are kept while any
/// observer is resumable, and for `resumeMs` after the last one leaves. Otherwise a commit costs one check.
///
/// ```
/// base ── commit ── commit ── commit          each tree shares unwritten parts with the next
///   │                └── an observer resumes here: it receives what the later commits did to its view
///   └── an observer whose position is older starts from scratch
/// ```
/// Bounded in commits, in written places, in bytes that only the old trees and the places hold, and in time. Confined to the database queue.
final class CommitRing {
    struct Entry {
        let sequence: UInt64
        /// The tree after the commit.
        let root: Node
        let paths: [Path]
        /// Bytes that only the tree before the commit holds, plus those of the places.
        let bytes: Int
        /// Steady ms.
        let at: Int64
    }

    /// Random for each process: another process's commits have the same sequences but differ.
    let epoch = String(UInt64.random(in: 1...UInt64.max), radix: 36)

    private let context: EngineContext
    private let content: Content
    /// The state before the first entry; nil while no commits are kept.
    private var base: (root: Node, sequence: UInt64)?
    private var entries: Deque<Entry> = []
    private(set) var bytes = 0
    /// Number of places that the kept commits wrote.
    private(set) var places = 0
    private var observers = 0
    /// When the last resumable observer left, steady ms.
    private var leftAt: Int64 = 0

    init(_ context: EngineContext, _ content: Content) {
        self.context = context
        self.content = content
    }

    /// True while new commits are kept.
    var isKeeping: Bool { base != nil }
    /// Number of kept commits.
    var count: Int { entries.count }

    /// Entries and pages that are scanned to measure a commit. A larger commit empties the ring.
    private static let look = 1_000

    // MARK: Keeping

    /// Counts a resumable observer that was added (+1) or removed (-1).
    func count(_ change: Int) {
        observers += change
        if observers > 0, base == nil { base = (content.root, content.sequence) }
        if observers == 0 { leftAt = context.scheduler.steadyMs }
    }

    /// Records a commit that has just been installed.
    /// - Parameter old: the tree before it.
    func record(_ paths: [Path], old: Node) {
        if base == nil { return }
        let now = context.scheduler.steadyMs
        if observers == 0, now - leftAt >= context.limits.resumeMs { return restart() }
        guard paths.count <= Self.look, let held = old.memoryBytes(besides: content.root, atMost: Self.look),
            held <= context.limits.resumeBytes
        else { return restart() }
        let entry = Entry(
            sequence: content.sequence, root: content.root, paths: paths, bytes: paths.reduce(held) { $0 + $1.memoryBytes }, at: now)
        entries.append(entry)
        bytes += entry.bytes
        places += paths.count
        trim(now)
    }

    private func trim(_ now: Int64) {
        let limits = context.limits
        while let first = entries.first,
            entries.count > limits.resumeCommits || places > limits.resumePlaces || bytes > limits.resumeBytes
                || now - first.at > limits.resumeMs
        {
            entries.removeFirst()
            bytes -= first.bytes
            places -= first.paths.count
            base = (first.root, first.sequence)
        }
    }

    /// Forgets all commits, so that returning observers start from scratch. Also called when new rules change read permissions.
    func restart() {
        context.release(entries.isEmpty ? [] : [Array(entries.map(\.root))])
        entries = []
        (bytes, places) = (0, 0)
        base = observers > 0 ? (content.root, content.sequence) : nil
    }

    /// Removes the commits that a rollback has undone.
    func rollBack() {
        guard let base else { return }
        if base.sequence > content.sequence { return restart() }
        while let last = entries.last, last.sequence > content.sequence {
            entries.removeLast()
            bytes -= last.bytes
            places -= last.paths.count
        }
    }

    // MARK: Resuming

    /// The tree that an observer last saw, and the commits since then. Nil if some of them are no longer kept.
    func commits(since position: Position) -> (root: Node, commits: Slice<Deque<Entry>>)? {
        trim(context.scheduler.steadyMs)
        guard position.epoch == epoch, let base else { return nil }
        guard position.sequence >= base.sequence, position.sequence <= content.sequence else { return nil }
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].sequence > position.sequence { high = middle } else { low = middle + 1 }
        }
        return (low == 0 ? base.root : entries[low - 1].root, entries[low...])
    }
}
