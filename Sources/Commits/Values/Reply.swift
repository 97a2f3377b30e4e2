public import JSONTree
public import LiveQueries

/// The answer to a request.
public enum Reply: Sendable {
    /// Done; nothing to report.
    case done
    /// - Parameter lacksIndex: the query's order is declared by no `.indexOn` (contract §3.4).
    case observing(sequence: UInt64, lacksIndex: Bool)
    /// Like `observing`, for an observer that may resume.
    /// - epoch: of the database; needed to resume.
    /// - isReset: earlier events are void, because not all later ones are known.
    case observed(sequence: UInt64, lacksIndex: Bool, epoch: String, isReset: Bool)
    case value(Node)
    case counted(Int)
    /// The children that a query selects at a path (observe protocol): an object, and the query, which determines their order.
    indirect case selected(Node, Query)
    /// The answer to a request that asked for the query's access path (observe protocol).
    indirect case explained(Reply, QueryExplanation)
    /// Committed as this sequence number.
    case written(sequence: UInt64)
    case pushed(Key, sequence: UInt64)
    case identified(Identity)
    case exchanged(Exchanged)
    case failed(Failure)
}
