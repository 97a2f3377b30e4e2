/// One place that a request writes, and its new value.
public struct TreeWrite: Sendable, Equatable {
    public enum Part: Sendable {
        /// The node itself, with its priority.
        case node
        /// Only the priority (contract §4.2, `x/.priority`).
        case priority
    }

    /// Absolute in a put. In an update relative to the update's path, and never empty.
    public var path: Path
    public var part: Part
    /// For `part == .priority` the priority: null, a number, a string or a server value.
    public var value: WriteValue

    public init(_ path: Path, part: Part = .node, _ value: WriteValue) {
        self.path = path
        self.part = part
        self.value = value
    }

    /// The same write with its path prefixed by a place.
    public func below(_ base: Path) -> TreeWrite { TreeWrite(base.appending(path), part: part, value) }
}
