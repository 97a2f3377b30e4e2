import DequeModule
import Journal

/// Calls completions in the order in which they were added, whatever the order of their results.
struct OrderedCompletions {
    typealias Completion = @Sendable (Result<Void, JournalError>) -> Void

    private var waiting: Deque<(completion: Completion, result: Result<Void, JournalError>?)> = []
    /// Number of the first waiting completion.
    private var first = 0

    /// - Returns: the number to pass to `decide`.
    mutating func add(_ completion: @escaping Completion) -> Int {
        waiting.append((completion, nil))
        return first + waiting.count - 1
    }

    /// Sets the result of a completion; a second result is ignored.
    /// - Returns: the completions to call now, in order.
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
