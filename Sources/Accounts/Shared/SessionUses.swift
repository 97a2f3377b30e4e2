/// When and from where a session was last used.
struct SessionUse: Equatable {
    var uid: String
    /// ms since the epoch.
    var at: Int64
    var peer: String?
}

/// Uses of sessions that are not stored yet. A hub of a cluster sends them to the others from time to time, in batches. So a device gets its
/// fresh token even while the log is unreachable, and a crash loses only the time of last use.
struct SessionUses {
    /// Most sessions; uses of further ones are dropped.
    static let most = 50_000
    /// Most sessions in one transaction.
    static let atOnce = 500

    private(set) var uses: [String: SessionUse] = [:]

    var isEmpty: Bool { uses.isEmpty }

    subscript(session: String) -> SessionUse? { uses[session] }

    mutating func record(_ session: String, _ use: SessionUse) {
        guard uses.count < Self.most || uses[session] != nil else { return }
        uses[session] = use
    }

    /// Removes and returns a batch.
    mutating func drain() -> [(id: String, use: SessionUse)] {
        let part = uses.prefix(Self.atOnce).map { (id: $0.key, use: $0.value) }
        for (id, _) in part { uses[id] = nil }
        return part
    }
}
