import DequeModule
import JSONTree
import Scheduling

/// The last commits of a namespace, each with the tree after it: what an observer that comes back has missed is found there. Kept while
/// an observer has asked to be able to come back, and for a while behind the last one; otherwise a commit costs one look.
///
/// ```
/// base ── commit ── commit ── commit          each tree shares with the next what was not written
///   │                └── an observer comes back from here: what the commits behind it did to what it shows
///   └── an observer that was told of less begins anew
/// ```
/// Bounded in commits and their places, in bytes that only the former trees and the places hold, and in time. Confined to the database
/// queue.
final class CommitRing {
    struct Entry {
        let sequence: UInt64
        /// The tree after it.
        let root: Node
        let paths: [Path]
        /// Bytes that the tree before it holds besides this one, and those of the places.
        let bytes: Int
        /// Steady ms.
        let at: Int64
    }

    /// Another one in each process: commits of another have the same numbers and are not these.
    let epoch = String(UInt64.random(in: 1...UInt64.max), radix: 36)

    private let context: EngineContext
    private let content: Content
    /// The tree that the first entry follows; nil while none is kept.
    private var base: (root: Node, sequence: UInt64)?
    private var entries: Deque<Entry> = []
    private(set) var bytes = 0
    /// Places that they wrote.
    private(set) var places = 0
    private var observers = 0
    /// When the last observer left.
    private var leftAt: Int64 = 0

    init(_ context: EngineContext, _ content: Content) {
        self.context = context
        self.content = content
    }

    /// Whether the commits of now are kept.
    var isKeeping: Bool { base != nil }
    /// Commits that are kept.
    var count: Int { entries.count }

    /// Entries and pages that are looked at to find out what a commit holds; with more it is not kept, and neither is what was before.
    private static let look = 1_000

    // MARK: Keeping

    /// An observer that may come back is there, or one of them less.
    func count(_ change: Int) {
        observers += change
        if observers > 0, base == nil { base = (content.root, content.sequence) }
        if observers == 0 { leftAt = context.scheduler.steadyMs }
    }

    /// A commit has been installed.
    /// - Parameter old: the tree before.
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

    /// Forgets all commits: who comes back begins anew. Also when other rules decide by now who may read.
    func restart() {
        context.release(entries.isEmpty ? [] : [Array(entries.map(\.root))])
        entries = []
        (bytes, places) = (0, 0)
        base = observers > 0 ? (content.root, content.sequence) : nil
    }

    /// The content has gone back to an earlier state.
    func rollBack() {
        guard let base else { return }
        if base.sequence > content.sequence { return restart() }
        while let last = entries.last, last.sequence > content.sequence {
            entries.removeLast()
            bytes -= last.bytes
            places -= last.paths.count
        }
    }

    // MARK: Coming back

    /// The tree that an observer knew, and the commits since; nil when these are not all known.
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

/// How far an observer was told.
public struct Position: Sendable, Equatable {
    /// Of the database that told it.
    public var epoch: String
    /// The commit of which it was told last.
    public var sequence: UInt64

    public init(epoch: String, sequence: UInt64) {
        self.epoch = epoch
        self.sequence = sequence
    }

    /// One from which nobody can go on.
    static let unknown = Position(epoch: "", sequence: 0)
}
