import DequeModule
import Journal

/// Calls completions in the order in which they were added, whichever is decided first.
struct CompletionLine {
    typealias Completion = @Sendable (Result<Void, JournalError>) -> Void

    private var waiting: Deque<(completion: Completion, result: Result<Void, JournalError>?)> = []
    /// Number of the first that waits.
    private var first = 0

    /// - Returns: the number by which it is decided about.
    mutating func add(_ completion: @escaping Completion) -> Int {
        waiting.append((completion, nil))
        return first + waiting.count - 1
    }

    /// Decides about one; a later decision about the same one counts for nothing.
    /// - Returns: what is to be called now, in order.
    mutating func decide(_ number: Int, _ result: Result<Void, JournalError>) -> [() -> Void] {
        guard number >= first, waiting[number - first].result == nil else { return [] }
        waiting[number - first].result = result
        var ready: [() -> Void] = []
        while let next = waiting.first, let result = next.result {
            waiting.removeFirst()
            first += 1
            ready.append { next.completion(result) }
        }
        return ready
    }
}
