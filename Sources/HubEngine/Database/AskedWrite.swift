import JSONTree

/// A write as a client asked for it, whatever the request was.
struct AskedWrite: Sendable {
    /// What becomes of it, and how it is answered.
    enum Purpose: Sendable {
        case write
        /// The child that was made.
        case push(Key)
        case exchange(Exchange, key: Key?)
        /// It is kept for the end of the client.
        case onDisconnect
    }

    let writes: [TreeWrite]
    var condition: Condition?
    let purpose: Purpose

    init(_ writes: [TreeWrite], if condition: Condition? = nil, _ purpose: Purpose = .write) {
        self.writes = writes
        self.condition = condition
        self.purpose = purpose
    }

    /// The place whose content its answer tells, or tells whether somebody has guessed it. That is for those who may read it
    /// (contract §4.6, §7.3).
    var revealed: Path? {
        if case .exchange(let exchange, _) = purpose, exchange.wantsContent || exchange.ifHash != nil { return exchange.path }
        return condition?.path
    }

    var ruled: RuledRequest {
        if case .onDisconnect = purpose { .onDisconnect } else { .write }
    }
}

extension TreeWrite {
    /// What was written: the resolved value at a place.
    typealias Operation = (path: Path, part: Part, value: Node)

    /// The tree after the writes; the given one shares all that they do not touch.
    ///
    /// What the tree cannot hold is refused here, whatever protocol let it through (contract §4.1, §4.2). Pure: on any queue.
    static func apply(_ writes: [TreeWrite], to root: Node, now: Int64) throws(Failure) -> (candidate: Node, operations: [Operation]) {
        var candidate = root
        var operations: [Operation] = []
        operations.reserveCapacity(writes.count)
        for write in writes {
            let value: Node
            switch write.part {
            case .node:
                value = write.value.deferred.isEmpty
                    ? write.value.node : write.value.resolved(current: candidate.node(at: write.path), now: now)
                guard value.fits(below: write.path.depth) else { throw .tooDeep }
                candidate.set(value, at: write.path)
            case .priority:
                value = write.value.deferred.isEmpty
                    ? write.value.node : write.value.resolved(current: candidate.node(at: write.path).priority, now: now)
                guard value.canBePriority else { throw .badPriority }
                candidate.setPriority(value, at: write.path)
            }
            operations.append((write.path, write.part, value))
        }
        return (candidate, operations)
    }
}

extension Failure {
    static let tooDeep = Failure(.failure, "\(JSONError.tooDeep(offset: 0))")
    static let badPriority = Failure(.failure, "\(JSONError.invalidPriority(offset: 0))")
    /// A large write that was prepared again and again, and never on what was stored in the end.
    static let overtaken = Failure(
        .unavailable, "Others kept changing what this large write depends on. Nothing of it was stored; try again.")
    static let noRoom = Failure(
        .unavailable, "The server has no memory left for a write of this size at the moment. Nothing of it was stored; try again.")
}
