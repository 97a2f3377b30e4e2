package import Commits

/// The marks of a remote client's unanswered requests. At most one request runs at a time.
package final class RemoteMarks: @unchecked Sendable {
    // Sendable: confined to the database queue.
    private var marks: [Int64: RemoteMark] = [:]
    package private(set) var current: RemoteMark?

    package init() {}

    package func remember(_ mark: RemoteMark, as token: Int64) { marks[token] = mark }
    package func forget(_ token: Int64) { marks[token] = nil }

    /// Sets the request that runs now.
    package func begin(_ token: Int64) { current = marks[token] }
}
