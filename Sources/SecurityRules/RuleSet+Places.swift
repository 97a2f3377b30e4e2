public import JSONTree

/// The rules of a place besides access: indexes, coordinates, expiry.
extension RuleSet {
    /// The deepest place of the file on the way to a path, with its wildcards: `/users/$uid`. O(depth)
    public func nearestPlace(to path: Path) -> Path {
        var place: Int32 = 0
        for key in path.keys {
            let next = withUnsafePointer(to: key) { program.tables.child(of: place, TextCursor($0)) }
            if next < 0 { break }
            place = next
        }
        return program.details[Int(place)].pattern
    }

    /// The settings of a rule node beside access rules.
    private func details(at path: Path) -> PlaceDetails? {
        var place: Int32 = 0
        for key in path.keys {
            place = withUnsafePointer(to: key) { program.tables.child(of: place, TextCursor($0)) }
            if place < 0 { return nil }
        }
        return program.details[Int(place)]
    }

    /// The rule node of a place, with its wildcards' names; nil where the rules end above it.
    func pattern(at path: Path) -> Path? { details(at: path)?.pattern }

    /// The `.indexOn` names in force for the children of a place: child paths such as `a/b`, `.value`, `.priority`
    /// (rules contract §1.4).
    public func indexes(at path: Path) -> [String] { details(at: path)?.indexes ?? [] }

    /// Where the children of a place keep their coordinates, if it has a `.geoIndex`.
    public func geoIndex(at path: Path) -> GeoIndexRule? { details(at: path)?.geoIndex }

    /// Whether a place has an `.expire` rule of its own.
    public func expires(at path: Path) -> Bool { details(at: path)?.sources[.expire] != nil }

    /// Rule nodes with an `.expire`, with their wildcards as keys such as `$uid`, parents first.
    public var expiringPlaces: [Path] { program.details.filter { $0.sources[.expire] != nil }.map(\.pattern) }

    /// Rule nodes with a `.geoIndex`, with their wildcards as keys such as `$uid`, parents first.
    public var geoIndexedPlaces: [Path] { program.details.filter { $0.geoIndex != nil }.map(\.pattern) }

    /// When the node at a place expires: ms since the epoch, or nil for never. Null, a failure and a value that is no number
    /// mean never. In the expression `data` and `newData` are both what is stored.
    public func expireTime(at path: Path, root: Node, now: Int64) -> Int64? {
        Evaluator.run(program, old: root, new: root, auth: .null, now: now, query: .none) { evaluator in
            evaluator.expireTime(path).flatMap { Int64(exactly: $0.rounded(.up)) }
        }
    }
}
