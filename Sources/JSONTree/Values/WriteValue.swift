/// A value that the server computes when a write is committed (contract §5).
public enum ServerValue: Sendable, Equatable {
    /// The time of the write in ms since the epoch; the same for all timestamps of one write.
    case timestamp
    /// Adds a number (`Node.int` or `.double`) to the stored value.
    case increment(Node)
}

/// Data of a write request. Server values are placeholders in the node until `resolved` fills them in.
public struct WriteValue: Sendable, Equatable {
    public var node: Node
    /// Server values in the data, in document order.
    public var deferred: [Deferred]

    public init(_ node: Node) {
        self.node = node
        deferred = []
    }

    init(node: Node, deferred: [Deferred]) {
        self.node = node
        self.deferred = deferred
    }

    public struct Deferred: Sendable, Equatable {
        public enum Target: Sendable { case value, priority }
        /// Relative to the written node.
        public var path: Path
        public var target: Target
        public var value: ServerValue

        public init(path: Path, target: Target, value: ServerValue) {
            self.path = path
            self.target = target
            self.value = value
        }
    }

    /// Applies a later write to the data, at a place in it.
    mutating func overwrite(_ part: TreeWrite.Part, at place: Path, with value: WriteValue) {
        switch part {
        case .node:
            node.set(value.node, at: place)
            // Drops server values at and below the place, and those above it in a leaf that has become an object.
            deferred.removeAll { place.contains($0.path) || ($0.target == .value && node.node(at: $0.path).hasChildren) }
            deferred += value.deferred.map { Deferred(path: place.appending($0.path), target: $0.target, value: $0.value) }
        case .priority:
            node.setPriority(value.node, at: place)
            deferred.removeAll { $0.target == .priority && $0.path == place }
            deferred += value.deferred.map { Deferred(path: place, target: .priority, value: $0.value) }
        }
    }

    /// The data with its server values resolved.
    /// - Parameters:
    ///   - current: the value stored at the written place.
    ///   - now: ms since the epoch.
    public func resolved(current: Node, now: Int64) -> Node {
        var result = node
        for item in deferred {
            let stored = current.node(at: item.path)
            switch item.target {
            case .value:
                let priority = result.node(at: item.path).priority
                result.set(item.value.resolve(stored.leaf, now: now).with(priority: priority), at: item.path)
            case .priority:
                result.setPriority(item.value.resolve(stored.priority, now: now), at: item.path)
            }
        }
        return result
    }
}

extension ServerValue {
    /// The new value for the stored one: a non-number counts as absent; integers stay integers unless they overflow. A sum beyond the largest
    /// double stays there, as JSON has no infinity.
    func resolve(_ stored: Node, now: Int64) -> Node {
        switch self {
        case .timestamp: return .int(now)
        case .increment(let by):
            switch (stored, by) {
            case (.int(let a), .int(let b)):
                let (sum, overflow) = a.addingReportingOverflow(b)
                return overflow ? Self.finite(Double(a) + Double(b)) : .int(sum)
            case (.int(let a), .double(let b)): return Self.finite(Double(a) + b)
            case (.double(let a), .int(let b)): return Self.finite(a + Double(b))
            case (.double(let a), .double(let b)): return Self.finite(a + b)
            default: return by
            }
        }
    }

    private static func finite(_ sum: Double) -> Node {
        .number(min(max(sum, -.greatestFiniteMagnitude), .greatestFiniteMagnitude))
    }
}
