/// When and from where a session was last used.
struct SessionUse: Equatable {
    var uid: String
    /// ms since the epoch.
    var at: Int64
    var peer: String?
}

/// Uses of sessions that are not written down yet. On a hub of a cluster they are told to the others now and then, many at once: a device
/// gets its fresh token also while the log cannot be reached, and a hub that ends without a word forgets only that a session was used.
struct SessionUses {
    /// Most sessions; further ones are not noted.
    static let most = 50_000
    /// Sessions in one transaction.
    static let atOnce = 500

    private(set) var uses: [String: SessionUse] = [:]

    var isEmpty: Bool { uses.isEmpty }

    subscript(session: String) -> SessionUse? { uses[session] }

    mutating func note(_ session: String, _ use: SessionUse) {
        guard uses.count < Self.most || uses[session] != nil else { return }
        uses[session] = use
    }

    /// A part of them, which is forgotten.
    mutating func drain() -> [(id: String, use: SessionUse)] {
        let part = uses.prefix(Self.atOnce).map { (id: $0.key, use: $0.value) }
        for (id, _) in part { uses[id] = nil }
        return part
    }
}
