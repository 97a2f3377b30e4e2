package import Commits
package import JSONTree
package import LiveQueries

/// Amounts charged for observers.
package struct ListenCharge: Equatable, Sendable {
    package var listens = 0
    /// Children in orders without `.indexOn`, or by members of sets.
    package internal(set) var unindexedEntries = 0
    /// Children that live queries hold.
    package internal(set) var liveChildren = 0

    package init(listens: Int = 0, unindexedEntries: Int = 0, liveChildren: Int = 0) {
        (self.listens, self.unindexedEntries, self.liveChildren) = (listens, unindexedEntries, liveChildren)
    }

    package var isZero: Bool { self == ListenCharge() }

    package static func += (one: inout ListenCharge, other: ListenCharge) {
        one.listens += other.listens
        one.unindexedEntries += other.unindexedEntries
        one.liveChildren += other.liveChildren
    }

    package static func -= (one: inout ListenCharge, other: ListenCharge) {
        one.listens -= other.listens
        one.unindexedEntries -= other.unindexedEntries
        one.liveChildren -= other.liveChildren
    }
}

/// State that the engine keeps once for all equal observers. One client is charged for it.
package enum SharedState: Hashable {
    case order(PlaceOrder)
    case view(Path, Query, LiveQueryView.Showing)
}

/// One order of a path's children.
package struct PlaceOrder: Hashable, Sendable {
    package let path: Path
    package let ordering: TreeQuery.Index

    package init(path: Path, ordering: TreeQuery.Index) {
        self.path = path
        self.ordering = ordering
    }
}

extension Failure {
    package static let tooManyLiveQueries = Failure(
        .unavailable, "The live queries of the namespace, or of this user or address, hold as many children as they may.")

    package static func tooManySteps(_ limit: Int) -> Failure {
        Failure(
            .tooBig,
            "The hub would have to look at more than \(limit) children for this query (liveQuerySteps); "
                + "add a condition or an order that has an index, or ask for a smaller circle.")
    }

    package static func tooManyMatches(_ limit: Int) -> Failure {
        Failure(.tooBig, "More than \(limit) children match; ask for fewer by a limit, or by another condition.")
    }
}
