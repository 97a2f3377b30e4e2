package import JSONTree
package import SecurityRules

/// The author and the cause of a commit. They determine whether the rules are evaluated, and the commit's consequences.
package struct WriteOrigin: Sendable {
    package enum Cause: Sendable {
        /// A client asked for it.
        case request
        /// An administrator imports data exported by another hub. It is stored unchanged.
        case imported
        /// The onDisconnect writes of a session that has ended (contract §6.2).
        case sessionEnd(id: String)
        /// A write of the hub itself.
        case system(SystemCause)
    }

    package let identity: Identity
    package let cause: Cause
    /// The forwarded request of a follower that it carries out; nil for all others.
    package var forwarded: RemoteMark?
    /// The path whose keys a client updates; nil for a set. REST event streams report it.
    package var update: Path?

    package static func client(_ identity: Identity) -> WriteOrigin { WriteOrigin(identity: identity, cause: .request) }
    package static func sessionEnd(_ left: PendingSession) -> WriteOrigin {
        WriteOrigin(identity: Identity(auth: left.auth, isAdmin: left.isAdmin), cause: .sessionEnd(id: left.id))
    }
    package static func system(_ cause: SystemCause) -> WriteOrigin { WriteOrigin(identity: .admin, cause: .system(cause)) }

    package static let imported = WriteOrigin(identity: .admin, cause: .imported)

    /// Whether `.drop` and `.default` apply: to all writes of clients, those of administrators included.
    package var isShaped: Bool {
        switch cause {
        case .request, .sessionEnd: true
        case .imported, .system: false
        }
    }

    /// Whether the rules' consequences apply: to everything except imports.
    package var isFollowed: Bool { if case .imported = cause { false } else { true } }

    /// The author as counters see it.
    package var author: ConsequenceAuthor {
        if case .system(.counters) = cause { return .hub }
        return isRuled ? .client : .administrator
    }

    /// Whether it must pass `.validate` and the limits of consequences although the hub is its author.
    package var mustBeValid: Bool {
        switch cause {
        case .system(.expiry), .system(.inbox), .system(.watch), .system(.removal): true
        default: false
        }
    }

    /// Whether the rules are evaluated.
    package var isRuled: Bool { !identity.isAdmin }

    /// Changes that become durable together with its writes. The onDisconnect writes of an ended session are no longer pending.
    package var pendingChanges: [PendingChange] {
        if case .sessionEnd(let id) = cause { [.forget(session: id)] } else { [] }
    }
}
