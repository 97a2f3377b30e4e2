import DequeModule

/// Schedules work off the queue. Each user has a limit of parallel jobs, over all of its connections. First come, first served. Confined to
/// the database queue.
final class PreparationTurns {
    private struct UserQueue {
        var running = 0
        /// Started jobs are removed, because they retain a request and its values.
        var waiting: Deque<() -> Bool> = []
    }

    private var queues: [String: UserQueue] = [:]

    /// Begins the work, now or when an earlier job of the same user is done.
    /// - Parameters:
    ///   - user: nil for no limit.
    ///   - begin: returns false when there is nothing left to do.
    func enqueue(_ user: String?, limit: Int, _ begin: @escaping () -> Bool) {
        guard let user else {
            _ = begin()
            return
        }
        if queues[user, default: UserQueue()].running < limit {
            queues[user, default: UserQueue()].running += 1
            if !begin() { done(user) }
        } else {
            queues[user, default: UserQueue()].waiting.append(begin)
        }
    }

    /// A job has ended.
    func done(_ user: String?) {
        guard let user else { return }
        while let begin = queues[user]?.waiting.popFirst() { if begin() { return } }
        queues[user]?.running -= 1
        if queues[user]?.running == 0 { queues[user] = nil }
    }
}
