import JSONTree

/// A write as requested, for all kinds of write requests.
struct AskedWrite: Sendable {
    /// How it is carried out and answered.
    enum Purpose: Sendable {
        case write
        /// The child that was made.
        case push(Key)
        // Indirect: most writes do not come over REST, and are handed on by value.
        indirect case exchange(Exchange, key: Key?)
        /// It is stored as an onDisconnect write.
        case onDisconnect
    }

    let writes: [TreeWrite]
    var condition: Condition?
    let purpose: Purpose
    /// Why the hub asks for it; nil when a client does.
    let cause: SystemCause?
    /// The place whose keys are updated; nil for a set.
    let update: Path?

    init(
        _ writes: [TreeWrite], if condition: Condition? = nil, _ purpose: Purpose = .write, cause: SystemCause? = nil, update: Path? = nil
    ) {
        self.update = update
        self.writes = writes
        self.condition = condition
        self.purpose = purpose
        self.cause = cause
    }

    func origin(_ client: Client) -> WriteOrigin {
        var origin = localOrigin(client)
        origin.update = update
        if let remote = client.remote { origin.forwarded = remote.current }
        return origin
    }

    private func localOrigin(_ client: Client) -> WriteOrigin {
        if let cause { return .system(cause) }
        if case .exchange(let exchange, _) = purpose, exchange.isImport, client.identity.isAdmin { return .imported }
        return .client(client.identity)
    }

    /// The place whose content its answer tells, or confirms a guess of. That is for clients that may read it
    /// (contract §4.6, §7.3).
    var revealed: Path? {
        if case .exchange(let exchange, _) = purpose, exchange.wantsContent || exchange.ifHash != nil { return exchange.path }
        return condition?.path
    }

    var ruled: RuledRequest {
        if case .onDisconnect = purpose { .onDisconnect } else { .write }
    }
}

extension [TreeWrite] {
    /// Work for the length of the paths, beside that for each place: the rules walk down to a place, and pages on the way are copied.
    var depthWork: Int {
        var work = 0
        for i in indices { work += self[i].path.keys.count / 8 }
        return work
    }
}

extension Failure {
    static func tooManyPlaces(_ limit: Int) -> Failure { Failure(.tooBig, "At most \(limit) places may be written at once.") }
    /// A large write that was prepared again and again, and never on what was stored in the end.
    static let overtaken = Failure(
        .unavailable, "Others kept changing what this large write depends on. Nothing of it was stored; try again.")
    static let noRoom = Failure(
        .unavailable, "The server has no memory left for a write of this size at the moment. Nothing of it was stored; try again.")
}
