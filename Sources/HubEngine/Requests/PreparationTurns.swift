import DequeModule

/// Schedules work off the queue: each user has a limit of jobs at the same time, over all of its connections.
/// In the order of asking. Confined to the database queue.
final class PreparationTurns {
    private struct Line {
        var running = 0
        /// Started jobs are not kept here, because they retain a request and its values.
        var waiting: Deque<() -> Bool> = []
    }

    private var lines: [String: Line] = [:]

    /// Begins the work, now or when an earlier one of the same user is done.
    /// - Parameters:
    ///   - user: nil for one who never waits.
    ///   - begin: says false when nothing is to be done any more.
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

    /// The work of a turn is done.
    func done(_ user: String?) {
        guard let user else { return }
        while let begin = lines[user]?.waiting.popFirst() { if begin() { return } }
        lines[user]?.running -= 1
        if lines[user]?.running == 0 { lines[user] = nil }
    }
}
