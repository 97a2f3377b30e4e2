import JSONTree

/// A child's position in a window's order: by distance, or by the value and key of the query's order.
struct ChildPlace: Sendable {
    /// The square of the chord from the centre; 0 in another order.
    let chordSquared: Double
    /// Only the key by distance.
    let child: OrderedChild
    var key: Key { child.key }

    init(_ child: OrderedChild) { (chordSquared, self.child) = (0, child) }
    init(chordSquared: Double, key: Key) { (self.chordSquared, child) = (chordSquared, TreeQuery.Index.key.place(key, .null)) }

    /// Negative, zero or positive as this comes before, equals, or comes after the other.
    @inline(__always)
    func order(_ other: ChildPlace) -> Int {
        if chordSquared != other.chordSquared { return chordSquared < other.chordSquared ? -1 : 1 }
        return child.order(other.child)
    }
}
