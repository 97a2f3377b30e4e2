import Synchronization

/// Whether this hub is the writer of a namespace, if that changes while it is open. The storage requests a role; the database reports its
/// actual role.
///
/// ```
/// storage ── request: write ──► database: a first commit of the new epoch ─► writing
///         ◄─ role changed ─────          refused, superseded ─► following, with the reason
///         ── request: follow ─► database: all commits in flight are settled ─► following
/// ```
/// From any thread.
public final class WriterRole: Sendable {
    public enum RequestedRole: Sendable { case write, follow }

    /// The database's actual role.
    public enum Role: String, Sendable {
        case following
        /// It will be the writer when the log has its first commit.
        case claiming
        case writing
        /// It will follow when all commits in flight are settled.
        case yielding
    }

    private struct State {
        var requestedRole = RequestedRole.follow
        var role = Role.following
        var act: (@Sendable (RequestedRole) -> Void)?
    }

    private let state = Mutex(State())
    private let changed: @Sendable (Role, JournalError?) -> Void
    /// Name of the current writer, for the texts of refusals; nil if unknown.
    public let writer: @Sendable () -> String?

    public init(
        writer: @escaping @Sendable () -> String?, changed: @escaping @Sendable (_ role: Role, _ reason: JournalError?) -> Void
    ) {
        (self.writer, self.changed) = (writer, changed)
    }

    public var role: Role { state.withLock { $0.role } }

    // For the storage

    public func request(_ role: RequestedRole) {
        let act = state.withLock { state in
            state.requestedRole = role
            return state.act
        }
        act?(role)
    }

    // For the database

    /// Starts to receive requested roles, beginning with the current one.
    public func begin(_ act: @escaping @Sendable (RequestedRole) -> Void) {
        let role = state.withLock { state in
            state.act = act
            return state.requestedRole
        }
        act(role)
    }

    /// - Parameter reason: why it is not the writer although that was requested.
    public func roleDidChange(_ role: Role, _ reason: JournalError? = nil) {
        state.withLock { $0.role = role }
        changed(role, reason)
    }
}
