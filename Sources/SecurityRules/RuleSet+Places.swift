public import JSONTree

/// The rules of a place besides access.
extension RuleSet {
    /// The functions of the file in its order: their heads, such as `isFriend(a, b)`, and their expressions.
    public var functions: [(name: String, text: String)] { program.functions.map { ($0.name, $0.source.text) } }

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
    func details(at path: Path) -> PlaceDetails? {
        var place: Int32 = 0
        for key in path.keys {
            place = withUnsafePointer(to: key) { program.tables.child(of: place, TextCursor($0)) }
            if place < 0 { return nil }
        }
        return program.details[Int(place)]
    }

    /// The indexes in force for the children of a place: child paths such as `a/b`, `.value`, `.priority` (rules contract §1.4). Those
    /// of `.indexOn`, then what `.geoIndex` names as `filter` and `order`.
    public func indexes(at path: Path) -> [String] { details(at: path)?.indexes ?? [] }

    /// Which line of the rules is for the order of a place's children by a path below each: its name, or that of a set of which it is a
    /// member, as `types/*` is for `types/cafe`. O(depth + indexes of the place)
    public func declaresIndex(_ name: String, at path: Path) -> IndexDeclaration? {
        guard let indexes = details(at: path)?.indexes, !indexes.isEmpty else { return nil }
        return Self.declaration(of: name, among: indexes)
    }

    /// The same of the indexes of a place.
    static func declaration(of name: String, among indexes: [String]) -> IndexDeclaration? {
        if indexes.contains(name) { return .byName }
        guard !name.hasPrefix("."), !name.hasSuffix("/*"), name != "*" else { return nil }
        let set = name.lastIndex(of: "/").map { name[...$0] + "*" } ?? "*"
        return indexes.contains { $0 == set } ? .asMember : nil
    }

    /// How a line of the rules is for an order.
    public enum IndexDeclaration: Sendable {
        case byName
        /// `types/*`: an index for each of the keys of `types` that is asked for.
        case asMember
    }

    /// Where the children of a place have their position, in degrees: paths below each child. Nil without `.geoIndex`. O(depth)
    public func geoIndex(at path: Path) -> (latitude: Path, longitude: Path)? { details(at: path)?.geoIndex }
}
