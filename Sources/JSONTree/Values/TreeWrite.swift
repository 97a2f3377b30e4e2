/// One place that a request writes, and what it writes there.
public struct TreeWrite: Sendable, Equatable {
    public enum Part: Sendable {
        /// The node itself, with its priority.
        case node
        /// The priority alone (contract §4.2, `x/.priority`).
        case priority
    }

    /// Absolute in a put; relative to the update's path in an update, and never empty there.
    public var path: Path
    public var part: Part
    /// For `part == .priority` this is the priority: null, a number, a string or a server value.
    public var value: WriteValue

    public init(_ path: Path, part: Part = .node, _ value: WriteValue) {
        self.path = path
        self.part = part
        self.value = value
    }

    /// The same write with its path below a place.
    public func below(_ base: Path) -> TreeWrite { TreeWrite(base.appending(path), part: part, value) }
}
