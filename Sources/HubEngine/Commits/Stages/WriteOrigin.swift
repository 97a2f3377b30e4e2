import JSONTree
import SecurityRules

/// The author and the cause of a commit. They determine whether the rules are evaluated, and the commit's consequences.
struct WriteOrigin: Sendable {
    enum Cause: Sendable {
        /// A client asked for it.
        case request
        /// An administrator imports what another hub has held: it is stored as it is.
        case imported
        /// The onDisconnect writes of a session that has ended (contract §6.2).
        case sessionEnd(id: String)
        /// The hub itself makes it.
        case system(SystemCause)
    }

    let identity: Identity
    let cause: Cause
    /// The request of another hub that it carries out; nil for all others.
    var forwarded: RemoteMark?
    /// The place whose keys a client updates; nil for a set. Event streams show it.
    var update: Path?

    static func client(_ identity: Identity) -> WriteOrigin { WriteOrigin(identity: identity, cause: .request) }
    static func sessionEnd(_ left: PendingSession) -> WriteOrigin {
        WriteOrigin(identity: Identity(auth: left.auth, isAdmin: left.isAdmin), cause: .sessionEnd(id: left.id))
    }
    static func system(_ cause: SystemCause) -> WriteOrigin { WriteOrigin(identity: .admin, cause: .system(cause)) }

    static let imported = WriteOrigin(identity: .admin, cause: .imported)

    /// Whether `.drop` and `.default` apply: to what clients write, administrators among them.
    var isShaped: Bool {
        switch cause {
        case .request, .sessionEnd: true
        case .imported, .system: false
        }
    }

    /// Whether what the rules have follow is done: for all but imports.
    var isFollowed: Bool { if case .imported = cause { false } else { true } }

    /// Who makes it, as far as counters are concerned.
    var author: ConsequenceAuthor {
        if case .system(.counters) = cause { return .hub }
        return isRuled ? .client : .administrator
    }

    /// Whether it is to be refused for what `.validate` or its consequences say, though the hub makes it itself.
    var mustBeValid: Bool {
        switch cause {
        case .system(.expiry), .system(.inbox), .system(.removal): true
        default: false
        }
    }

    /// Whether the rules are evaluated.
    var isRuled: Bool { !identity.isAdmin }

    /// Changes that become durable together with its writes. The onDisconnect writes of
    /// an ended session are no longer pending.
    var pendingChanges: [PendingChange] {
        if case .sessionEnd(let id) = cause { [.forget(session: id)] } else { [] }
    }
}

/// Why the hub makes a write of its own. Its raw value is the name in metrics.
public enum SystemCause: String, Sendable, CaseIterable {
    /// An account was deleted: what belongs to it is removed.
    case accountDeletion = "account_deletion"
    /// Counters of the rules are corrected after a start, a deploy or an import.
    case counters
    /// The time of a node has come.
    case expiry
    /// Rows of inboxes that another commit owed.
    case inbox
    /// What follows from removals and was too much for their commit.
    case removal
}
