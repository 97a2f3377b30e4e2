/// What one session leaves behind for its end: its writes, and as whom it makes them.
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

/// One step in what sessions leave behind; the steps of a journal lead to what was pending when the process ended.
public enum PendingChange: Sendable, Equatable {
    /// The session's end makes this write.
    case keep(session: String, TreeWrite)
    /// It no longer makes those at and below the place.
    case cancel(session: String, Path)
    /// It makes them as this user.
    case identify(session: String, auth: Node, isAdmin: Bool)
    /// The session has ended, and its writes with it.
    case forget(session: String)

    public var session: String {
        switch self {
        case .keep(let id, _), .cancel(let id, _), .identify(let id, _, _), .forget(let id): id
        }
    }
}

/// What all sessions leave behind.
public struct PendingSessions: Sendable {
    private struct Entry {
        /// Which of all it was to leave something.
        let number: Int
        var session: PendingSession
    }

    private var byID: [String: Entry] = [:]
    private var nextNumber = 0

    public init() {}

    /// Those with writes, each once, in the order of their first since they were last forgotten. O(n log n)
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
