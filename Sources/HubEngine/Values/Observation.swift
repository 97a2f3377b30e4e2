import JSONTree
import LiveQueries

/// One observer of one client.
struct Observation: Hashable {
    let path: Path
    /// Nil for all content of the path.
    let query: Query?
    let style: ObserverStyle

    /// True for a whole place, or order, range and limit alone. Others observe a live query.
    var isPlain: Bool { query?.isPlain ?? true }

    /// Whether the live query must hold the children for it, or only their number.
    var showing: LiveQueryView.Showing { style.isCount ? .count : .children }
}
