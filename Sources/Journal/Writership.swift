import Synchronization

/// Whether this hub writes a namespace, where that changes while it is open. The storage says what is to be, the database what is so.
///
/// ```
/// storage ── wish: write ──► database: a first commit of the new epoch ─► writing
///         ◄─ became ────────          refused, superseded ─► following, and why
///         ── wish: follow ─► database: what is under way is settled ─► following
/// ```
/// From any thread.
public final class Writership: Sendable {
    public enum Wish: Sendable { case write, follow }

    /// What the database is, and what it is about to be.
    public enum Role: String, Sendable {
        case following
        /// It writes when the log has its first commit.
        case claiming
        case writing
        /// It follows when what is under way is settled.
        case yielding
    }

    private struct State {
        var wish = Wish.follow
        var role = Role.following
        var act: (@Sendable (Wish) -> Void)?
    }

    private let state = Mutex(State())
    private let changed: @Sendable (Role, JournalError?) -> Void
    /// How the hub that writes is named now, for the texts of refusals; nil where none is known.
    public let writer: @Sendable () -> String?

    public init(
        writer: @escaping @Sendable () -> String?, changed: @escaping @Sendable (_ role: Role, _ reason: JournalError?) -> Void
    ) {
        (self.writer, self.changed) = (writer, changed)
    }

    public var role: Role { state.withLock { $0.role } }

    // MARK: The storage

    public func wish(_ wish: Wish) {
        let act = state.withLock { state in
            state.wish = wish
            return state.act
        }
        act?(wish)
    }

    // MARK: The database

    /// Begins to hear wishes, with the one of now.
    public func begin(_ act: @escaping @Sendable (Wish) -> Void) {
        let wish = state.withLock { state in
            state.act = act
            return state.wish
        }
        act(wish)
    }

    /// - Parameter reason: why it does not write any more, or yet, though that was wished.
    public func became(_ role: Role, _ reason: JournalError? = nil) {
        state.withLock { $0.role = role }
        changed(role, reason)
    }
}
