/// The disconnect writes of one session, and the identity that they are committed with.
public struct PendingSession: Sendable, Equatable {
    public let id: String
    /// The rules' `auth` variable of the session.
    public var auth: Node
    public var isAdmin: Bool
    public var writes: PendingWrites

    public init(id: String, auth: Node = .null, isAdmin: Bool = false, writes: PendingWrites = PendingWrites()) {
        self.id = id
        self.auth = auth
        self.isAdmin = isAdmin
        self.writes = writes
    }
}

/// One change of the disconnect writes. Replaying a journal's changes restores those pending when the process ended.
public enum PendingChange: Sendable, Equatable {
    /// Adds a write.
    case keep(session: String, TreeWrite)
    /// Removes the writes at and below the place.
    case cancel(session: String, Path)
    /// Sets the identity of the writes.
    case identify(session: String, auth: Node, isAdmin: Bool)
    /// The session has ended; removes all its writes.
    case forget(session: String)

    public var session: String {
        switch self {
        case .keep(let id, _), .cancel(let id, _), .identify(let id, _, _), .forget(let id): id
        }
    }
}

/// The disconnect writes of all sessions.
public struct PendingSessions: Sendable {
    private struct Entry {
        /// Orders sessions by when they were added.
        let number: Int
        var session: PendingSession
    }

    private var byID: [String: Entry] = [:]
    private var nextNumber = 0

    public init() {}

    /// Sessions with writes, in the order they were added. O(n log n)
    public var sessions: [PendingSession] {
        byID.values.filter { !$0.session.writes.isEmpty }.sorted { $0.number < $1.number }.map(\.session)
    }

    public mutating func apply(_ change: PendingChange) {
        switch change {
        case .keep(let id, let write): mutate(id) { $0.writes.add(write) }
        case .cancel(let id, let path): byID[id]?.session.writes.cancel(path)
        case .identify(let id, let auth, let isAdmin):
            mutate(id) {
                $0.auth = auth
                $0.isAdmin = isAdmin
            }
        case .forget(let id): byID[id] = nil
        }
    }

    private mutating func mutate(_ id: String, _ body: (inout PendingSession) -> Void) {
        var entry = byID.removeValue(forKey: id) ?? newEntry(id)
        body(&entry.session)
        byID[id] = entry
    }

    private mutating func newEntry(_ id: String) -> Entry {
        defer { nextNumber += 1 }
        return Entry(number: nextNumber, session: PendingSession(id: id))
    }
}
