/// The last commit that an observer has seen.
public struct Position: Sendable, Equatable {
    /// Identifies the process whose commits `sequence` counts.
    public var epoch: String
    /// The last commit that the observer was notified of.
    public var sequence: UInt64

    public init(epoch: String, sequence: UInt64) {
        self.epoch = epoch
        self.sequence = sequence
    }

    /// A position from which no observer can resume.
    package static let unknown = Position(epoch: "", sequence: 0)
}
