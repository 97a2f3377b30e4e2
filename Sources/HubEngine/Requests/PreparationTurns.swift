import DequeModule

/// Schedules work off the queue. Each user has a limit of parallel jobs, over all of its connections. First come, first served. Confined to
/// the database queue.
final class PreparationTurns {
    private struct Line {
        var running = 0
        /// Started jobs are removed, because they retain a request and its values.
        var waiting: Deque<() -> Bool> = []
    }

    private var lines: [String: Line] = [:]

    /// Begins the work, now or when an earlier job of the same user is done.
    /// - Parameters:
    ///   - user: nil for no limit.
    ///   - begin: returns false when there is nothing left to do.
    func enqueue(_ user: String?, limit: Int, _ begin: @escaping () -> Bool) {
        guard let user else {
            _ = begin()
            return
        }
        if lines[user, default: Line()].running < limit {
            lines[user, default: Line()].running += 1
            if !begin() { done(user) }
        } else {
            lines[user, default: Line()].waiting.append(begin)
        }
    }

    /// A job has ended.
    func done(_ user: String?) {
        guard let user else { return }
        while let begin = lines[user]?.waiting.popFirst() { if begin() { return } }
        lines[user]?.running -= 1
        if lines[user]?.running == 0 { lines[user] = nil }
    }
}
