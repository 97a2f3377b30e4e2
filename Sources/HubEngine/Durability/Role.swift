import Journal

/// Whether a database writes its namespace or follows the hub that does. A pure value: `RoleKeeper` acts on it.
///
/// ```
/// following ── wish: write ──► claiming ── the first commit of the new epoch is applied ──► writing
///     ▲ ▲                         │                                                          │  │ wish: follow
///     │ └── refused, not wished ──┘                                                          │  ▼
///     ├──── another hub has written: the log refuses ◄───────────────────────────────────────┴─ yielding
///     └──── all that was under way is settled ◄──────────────────────────────────────────────────┘
/// ```
enum Role {
    case following
    /// With the commit that changes nothing, and is the first of the new epoch.
    case claiming(JournalBatch)
    case writing
    case yielding

    enum Step { case claim, withdraw, yield, follow }

    /// What is to be done now.
    /// - Parameter isBehind: whether something that was written waits for the log.
    func step(wished: Writership.Wish, isBehind: Bool) -> Step? {
        switch (self, wished) {
        case (.following, .write): .claim
        case (.claiming, .follow): .withdraw
        case (.writing, .follow): .yield
        case (.yielding, _): isBehind ? nil : .follow
        default: nil
        }
    }

    /// Whether the batch is the one that it waits for.
    func isClaimed(by batch: JournalBatch) -> Bool {
        if case .claiming(let claim) = self { return claim.id == batch.id && claim.epoch == batch.epoch }
        return false
    }

    var shown: Writership.Role {
        switch self {
        case .following: .following
        case .claiming: .claiming
        case .writing: .writing
        case .yielding: .yielding
        }
    }
}
