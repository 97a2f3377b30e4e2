public import JSONTree

/// The region of a query: `"within": {"south": 37.9, "west": 23.6, "north": 38.1, "east": 23.9}`, a polygon, or the place where one is
/// stored.
public struct WithinQuery: Sendable, Hashable {
    public enum Source: Sendable, Hashable {
        case region(Region)
        /// The place of a region in the tree, which is read when the query starts.
        case stored(Path)
    }

    public let source: Source
    /// Nil until a stored region is read.
    public internal(set) var region: Region?
    /// The position fields of the children, once taken from the rules.
    public internal(set) var fields: GeoFields?

    public init(_ source: Source) {
        self.source = source
        if case .region(let region) = source { self.region = region }
    }

    /// Reads the value of a `within`: a form of `Region`, or a path.
    /// - Throws: `QueryFault`, which names the member.
    public init(_ json: JSONValue) throws(QueryFault) {
        guard let text = json.string else {
            self.init(.region(try Region(json)))
            return
        }
        let path: Path
        do throws(PathError) { path = try Path(parsing: text) } catch { throw .malformed("within", "\"\(text.prefix(64))\" is no path") }
        if path.isRoot { throw .malformed("within", "the path is empty") }
        self.init(.stored(path))
    }

    /// Reads the text form, in `within=` of REST and `--within` of the command line.
    ///
    ///     37.9,23.6,38.1,23.9        a box: south, west, north, east
    ///     {…} or […]                 JSON, as in the observe protocol
    ///     zones/z1/ring              the place of a stored region
    /// - Throws: `QueryFault`, which names the member.
    public init(text: String) throws(QueryFault) {
        guard text.utf8.count <= Self.mostBytes else { throw .tooBig("within", "has more than \(Self.mostBytes) bytes") }
        let text = String(text.drop { $0 == " " })
        if let first = text.first, "{[\"".contains(first) {
            let json: JSONValue
            do throws(JSONError) { json = try JSONValue(Array(text.utf8)) } catch {
                throw .malformed("within", "is no JSON: \(error.description)")
            }
            try self.init(json)
            return
        }
        let numbers = text.split(separator: ",", omittingEmptySubsequences: false).map { try? JSONValue(Array($0.utf8)) }
        if numbers.count > 1 || numbers.contains(where: { $0 != nil }) {
            guard numbers.count == 4, let json = try? JSONValue(Array("[\(text)]".utf8)) else {
                throw .malformed("within", "must be south,west,north,east, as 37.9,23.6,38.1,23.9, a place with a region, or JSON")
            }
            try self.init(json)
            return
        }
        try self.init(.string(text))
    }

    /// Most bytes of a `within` as text: those of a polygon with all its points.
    public static let mostBytes = 64 << 10

    /// As JSON; `WithinQuery(json)` reads it back.
    public var json: JSONValue {
        switch source {
        case .region(let region): region.json
        case .stored(let path): .string(path.relativeText)
        }
    }

    /// Memory of the region, in bytes.
    public var bytes: Int { if case .polygon(let polygon)? = region { polygon.path.count * 16 + 128 } else { 128 } }
}
