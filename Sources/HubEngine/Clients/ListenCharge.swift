import JSONTree
import LiveQueries

/// Amounts charged for observers.
struct ListenCharge: Equatable, Sendable {
    var listens = 0
    /// Children in orders without `.indexOn`, or by members of sets.
    var unindexedEntries = 0
    /// Children that live queries hold.
    var liveChildren = 0

    var isZero: Bool { self == ListenCharge() }

    static func += (one: inout ListenCharge, other: ListenCharge) {
        one.listens += other.listens
        one.unindexedEntries += other.unindexedEntries
        one.liveChildren += other.liveChildren
    }

    static func -= (one: inout ListenCharge, other: ListenCharge) {
        one.listens -= other.listens
        one.unindexedEntries -= other.unindexedEntries
        one.liveChildren -= other.liveChildren
    }
}

/// State that the engine keeps once for all equal observers. One client is charged for it.
enum SharedState: Hashable {
    case order(PlaceOrder)
    case view(Path, Query, LiveQueryView.Showing)
}

/// One order of a path's children.
struct PlaceOrder: Hashable, Sendable {
    let path: Path
    let ordering: TreeQuery.Index
}

extension Failure {
    static let tooManyLiveQueries = Failure(
        .unavailable, "The live queries of the namespace, or of this user or address, hold as many children as they may.")

    static func tooManySteps(_ limit: Int) -> Failure {
        Failure(
            .tooBig,
            "The hub would have to look at more than \(limit) children for this query (liveQuerySteps); "
                + "add a condition or an order that has an index, or ask for a smaller circle.")
    }

    static func tooManyMatches(_ limit: Int) -> Failure {
        Failure(.tooBig, "More than \(limit) children match; ask for fewer by a limit, or by another condition.")
    }
}
