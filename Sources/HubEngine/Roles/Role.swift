import Journal

/// Whether a database is the writer of its namespace or a follower. A pure value: `RoleController` acts on it.
///
/// ```
/// following ── request: write ──► claiming ── the first commit of the new epoch is applied ──► writing
///     ▲ ▲                            │                                                         │  │ request: follow
///     │ └── refused, or withdrawn ───┘                                                         │  ▼
///     ├──── another hub has written: the log refuses ◄─────────────────────────────────────────┴─ yielding
///     └──── all commits in flight are settled ◄───────────────────────────────────────────────────┘
/// ```
enum Role {
    case following
    /// With the empty commit that is the first of the new epoch.
    case claiming(JournalBatch)
    case writing
    case yielding

    enum Step { case claim, withdraw, yield, follow }

    /// The next step.
    /// - Parameter isBehind: whether written commits still wait for the log.
    func step(requestedRole: WriterRole.RequestedRole, isBehind: Bool) -> Step? {
        switch (self, requestedRole) {
        case (.following, .write): .claim
        case (.claiming, .follow): .withdraw
        case (.writing, .follow): .yield
        case (.yielding, _): isBehind ? nil : .follow
        default: nil
        }
    }

    /// Whether the batch is the claim that it waits for.
    func isClaimed(by batch: JournalBatch) -> Bool {
        if case .claiming(let claim) = self { return claim.id == batch.id && claim.epoch == batch.epoch }
        return false
    }

    var shown: WriterRole.Role {
        switch self {
        case .following: .following
        case .claiming: .claiming
        case .writing: .writing
        case .yielding: .yielding
        }
    }
}
