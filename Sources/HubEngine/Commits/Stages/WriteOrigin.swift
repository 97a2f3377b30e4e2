import JSONTree

/// Who makes a commit and why: it decides whether the rules are asked, and what becomes durable with the writes.
struct WriteOrigin: Sendable {
    enum Cause: Sendable {
        /// A client asked for it.
        case request
        /// A session has ended that left this for its end (contract §6.2).
        case sessionEnd(id: String)
        /// The hub itself makes it.
        case system(SystemCause)
    }

    let identity: Identity
    let cause: Cause

    static func client(_ identity: Identity) -> WriteOrigin { WriteOrigin(identity: identity, cause: .request) }
    static func sessionEnd(_ left: PendingSession) -> WriteOrigin {
        WriteOrigin(identity: Identity(auth: left.auth, isAdmin: left.isAdmin), cause: .sessionEnd(id: left.id))
    }
    static func system(_ cause: SystemCause) -> WriteOrigin { WriteOrigin(identity: .admin, cause: .system(cause)) }

    /// Whether the rules are asked.
    var isRuled: Bool { !identity.isAdmin }

    /// The fifth stage of a commit, its consequences: what becomes durable together with its writes. What an ended session has left is
    /// done with them.
    var consequences: [PendingChange] {
        if case .sessionEnd(let id) = cause { [.forget(session: id)] } else { [] }
    }
}

/// Why the hub makes a write of its own. Its raw value is the name in metrics.
public enum SystemCause: String, Sendable, CaseIterable {
    /// An account was deleted: what belongs to it is removed.
    case accountDeletion = "account_deletion"
}
