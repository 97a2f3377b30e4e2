import DequeModule

/// Whose turn it is to have work done off the queue: of one user only so much at the same time, over however many connections.
/// In the order of asking. Confined to the database queue.
final class PreparationTurns {
    private struct Line {
        var running = 0
        /// Nothing is kept here of what has begun: it holds a request and all that it names.
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
