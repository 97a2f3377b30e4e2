package import JSONTree
package import LiveQueries

/// One observer of one client.
package struct Observation: Hashable {
    package let path: Path
    /// Nil for all content of the path.
    package let query: Query?
    package let style: ObserverStyle

    package init(path: Path, query: Query?, style: ObserverStyle) {
        (self.path, self.query, self.style) = (path, query, style)
    }

    /// True for a whole place, or order, range and limit alone. Others observe a live query.
    package var isPlain: Bool { query?.isPlain ?? true }

    /// Whether the live query must hold the children for it, or only their number.
    package var showing: LiveQueryView.Showing { style.isCount ? .count : .children }
}
