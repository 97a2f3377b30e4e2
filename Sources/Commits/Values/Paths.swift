package import JSONTree

extension [Path] {
    /// The paths in ascending order; not sorted again if they already are.
    package func ascending() -> [Path] {
        for i in indices.dropFirst() where self[i] < self[i - 1] { return sorted() }
        return self
    }

    /// Removes duplicates from ascending paths.
    package func withoutRepeated() -> [Path] {
        guard indices.dropFirst().contains(where: { self[$0] == self[$0 - 1] }) else { return self }
        return indices.filter { $0 == 0 || self[$0] != self[$0 - 1] }.map { self[$0] }
    }
}

extension Node {
    /// True if rules that read only this place see no difference: same leaf, or both with children and the same priority. Rules that count or compare
    /// the subtree (`Dependent.subtreeDependencies`) see more.
    package func hasSameSurface(as other: Node) -> Bool {
        guard hasChildren == other.hasChildren else { return false }
        return hasChildren ? isSameObject(as: other) || priority == other.priority : self == other
    }
}
