import JSONTree
import LiveQueries

/// One observer of one client.
struct Observation: Hashable {
    let path: Path
    /// Nil for all content of the path.
    let query: ChildQuery?
    let style: ObserverStyle

    /// Whether the live query must hold the children for it, or only their number.
    var showing: LiveQueryView.Showing { style.isCount ? .count : .children }
}
