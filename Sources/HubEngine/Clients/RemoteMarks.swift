/// The marks of a remote client's unanswered requests. At most one request runs at a time.
final class RemoteMarks: @unchecked Sendable {
    // Sendable: confined to the database queue.
    private var marks: [Int64: RemoteMark] = [:]
    private(set) var current: RemoteMark?

    func remember(_ mark: RemoteMark, as token: Int64) { marks[token] = mark }
    func forget(_ token: Int64) { marks[token] = nil }

    /// Sets the request that runs now.
    func begin(_ token: Int64) { current = marks[token] }
}
