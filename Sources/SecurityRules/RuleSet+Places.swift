public import JSONTree

/// The rules of a place other than access rules.
extension RuleSet {
    /// The functions of the file in its order: signatures such as `isFriend(a, b)`, and their expressions.
    public var functions: [(name: String, text: String)] { program.functions.map { ($0.name, $0.source.text) } }

    /// The deepest rule node along a path, with its wildcards: `/users/$uid`. O(depth)
    public func nearestPlace(to path: Path) -> Path {
        var place: Int32 = 0
        for key in path.keys {
            let next = withUnsafePointer(to: key) { program.tables.child(of: place, TextCursor($0)) }
            if next < 0 { break }
            place = next
        }
        return program.details[Int(place)].pattern
    }

    /// The settings of a rule node other than access rules.
    func details(at path: Path) -> PlaceDetails? {
        var place: Int32 = 0
        for key in path.keys {
            place = withUnsafePointer(to: key) { program.tables.child(of: place, TextCursor($0)) }
            if place < 0 { return nil }
        }
        return program.details[Int(place)]
    }

    /// The indexes in force for the children of a place: child paths such as `a/b`, `.value`, `.priority` (rules contract §1.4). First
    /// those of `.indexOn`, then the `filter` and `order` names of `.geoIndex`.
    public func indexes(at path: Path) -> [String] { details(at: path)?.indexes ?? [] }

    /// How the rules declare an index for ordering a place's children by a path: by its name or as a member of a set. For example,
    /// `types/*` declares `types/cafe`. O(depth + indexes of the place)
    public func declaresIndex(_ name: String, at path: Path) -> IndexDeclaration? {
        guard let indexes = details(at: path)?.indexes, !indexes.isEmpty else { return nil }
        return Self.declaration(of: name, among: indexes)
    }

    /// How the given indexes of a place declare one.
    static func declaration(of name: String, among indexes: [String]) -> IndexDeclaration? {
        if indexes.contains(name) { return .byName }
        guard !name.hasPrefix("."), !name.hasSuffix("/*"), name != "*" else { return nil }
        let set = name.lastIndex(of: "/").map { name[...$0] + "*" } ?? "*"
        return indexes.contains { $0 == set } ? .asMember : nil
    }

    /// How the rules declare an index.
    public enum IndexDeclaration: Sendable {
        case byName
        /// `types/*`: an index for each key of `types` that queries use.
        case asMember
    }

    /// The paths of latitude and longitude, in degrees, below each child of a place. Nil without `.geoIndex`. O(depth)
    public func geoIndex(at path: Path) -> (latitude: Path, longitude: Path)? { details(at: path)?.geoIndex }
}
