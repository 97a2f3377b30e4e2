package import JSONTree

/// A write as requested, for all kinds of write requests.
package struct WriteRequest: Sendable {
    /// How it is carried out and answered.
    package enum Purpose: Sendable {
        case write
        /// The key of the new child.
        case push(Key)
        // Indirect: few writes come over REST, and this keeps the others small when passed by value.
        indirect case exchange(Exchange, key: Key?)
        /// Stored as an onDisconnect write.
        case onDisconnect
    }

    package let writes: [TreeWrite]
    package var condition: Condition?
    package let purpose: Purpose
    /// Why the hub itself writes; nil for a client's request.
    package let cause: SystemCause?
    /// The path whose keys are updated; nil for a set.
    package let update: Path?

    package init(
        _ writes: [TreeWrite], if condition: Condition? = nil, _ purpose: Purpose = .write, cause: SystemCause? = nil, update: Path? = nil
    ) {
        self.update = update
        self.writes = writes
        self.condition = condition
        self.purpose = purpose
        self.cause = cause
    }

    /// The path whose content the answer reveals (returned content, or a confirmed hash). Only for clients that may read it (contract §4.6,
    /// §7.3).
    package var revealed: Path? {
        if case .exchange(let exchange, _) = purpose, exchange.wantsContent || exchange.ifHash != nil { return exchange.path }
        return condition?.path
    }

    package var ruled: RuledRequest {
        if case .onDisconnect = purpose { .onDisconnect } else { .write }
    }
}

extension [TreeWrite] {
    /// Work for the length of the paths, in addition to that per path: the rules walk down each path, and the pages along it are copied.
    package var depthWork: Int {
        var work = 0
        for i in indices { work += self[i].path.keys.count / 8 }
        return work
    }
}

extension Failure {
    package static func tooManyPlaces(_ limit: Int) -> Failure { Failure(.tooBig, "At most \(limit) places may be written at once.") }
    /// A large write that was overtaken by other commits on every try.
    package static let overtaken = Failure(
        .unavailable, "Others kept changing what this large write depends on. Nothing of it was stored; try again.")
    package static let noRoom = Failure(
        .unavailable, "The server has no memory left for a write of this size at the moment. Nothing of it was stored; try again.")
}
