public import JSONTree

/// The position fields of a place's children, as `.geoIndex` of the rules file declares them.
///
///     ".geoIndex": {"lat": "position/latitude", "lng": "position/longitude"}
public struct GeoFields: Sendable, Hashable {
    /// Paths of latitude and longitude below a child, in degrees.
    public let latitude: Path
    public let longitude: Path

    public init(latitude: Path, longitude: Path) {
        self.latitude = latitude
        self.longitude = longitude
    }

    /// Reads `.geoIndex`. The members `filter` and `order` are also allowed: lists of paths that queries use as well.
    /// - Throws: `QueryFault`, which names the member.
    public init(_ json: JSONValue) throws(QueryFault) {
        guard let members = json.members else {
            throw .malformed(".geoIndex", "must be an object, as {\"lat\":\"position/lat\",\"lng\":\"position/lng\"}")
        }
        var (latitude, longitude): (Path?, Path?)
        for member in members {
            switch member.name {
            case "lat": latitude = try Self.path(member)
            case "lng": longitude = try Self.path(member)
            case "filter", "order":
                guard let list = member.value.elements, list.allSatisfy({ $0.string != nil }) else {
                    throw .malformed(".geoIndex.\(member.name)", "must be a list of paths")
                }
            default: throw .malformed(".geoIndex", "has no member \"\(member.name.prefix(64))\"")
            }
        }
        guard let latitude else { throw .malformed(".geoIndex", "\"lat\" is missing: the path of the latitude") }
        guard let longitude else { throw .malformed(".geoIndex", "\"lng\" is missing: the path of the longitude") }
        self.init(latitude: latitude, longitude: longitude)
    }

    private static func path(_ member: JSONValue.Member) throws(QueryFault) -> Path {
        let name = ".geoIndex.\(member.name)"
        guard let text = member.value.string else { throw .malformed(name, "must be a path") }
        let path: Path
        do throws(PathError) { path = try Path(parsing: text) } catch { throw .malformed(name, "\"\(text.prefix(64))\" is no path") }
        if path.isRoot { throw .malformed(name, "the path is empty") }
        return path
    }
}

/// The outcome of reading a child's position.
public enum GeoPosition: Sendable, Equatable {
    case point(GeoPoint)
    /// Nothing is stored there.
    case missing(Path)
    /// A text, a boolean or an object.
    case notANumber(Path)
    /// A latitude beyond 90° or a longitude beyond 180°.
    case outOfRange(Path)

    /// Nil for a child that is not indexed.
    public var point: GeoPoint? { if case .point(let point) = self { point } else { nil } }
}

extension GeoPosition: CustomStringConvertible {
    /// Why the child is or is not indexed, for `explain`.
    public var description: String {
        switch self {
        case .point: "in the index"
        case .missing(let path): "not in the index: \"\(path.relativeText)\" is missing"
        case .notANumber(let path): "not in the index: \"\(path.relativeText)\" is no number"
        case .outOfRange(let path): "not in the index: \"\(path.relativeText)\" is out of range (latitude ±90°, longitude ±180°)"
        }
    }
}

extension GeoFields {
    /// The position of a child, or the reason why it has none.
    public func position(of child: Node) -> GeoPosition {
        withUnsafePointer(to: child) { child in
            switch (degrees(NodeCursor(child), latitude), degrees(NodeCursor(child), longitude)) {
            case (.failure(let why), _), (_, .failure(let why)): return why.position
            case (.success(let latitude), .success(let longitude)):
                if let point = GeoPoint(latitude: latitude, longitude: longitude) { return .point(point) }
                return .outOfRange(latitude.magnitude <= 90 ? self.longitude : self.latitude)
            }
        }
    }

    /// The position of a child, read in place; nil if it has none.
    func point(of child: NodeCursor) -> GeoPoint? {
        guard case .success(let latitude) = degrees(child, latitude), case .success(let longitude) = degrees(child, longitude) else {
            return nil
        }
        return GeoPoint(latitude: latitude, longitude: longitude)
    }

    /// The same for a node; also nil for null.
    func point(of child: Node) -> GeoPoint? { withUnsafePointer(to: child) { point(of: NodeCursor($0)) } }

    private struct NoNumber: Error { let position: GeoPosition }

    private func degrees(_ child: NodeCursor, _ path: Path) -> Result<Double, NoNumber> {
        guard let value = child.descendant(path.keys) else { return .failure(NoNumber(position: .missing(path))) }
        switch value.kind {
        case .int(let number): return .success(Double(number))
        case .double(let number): return .success(number)
        case .prioritized:
            switch value.leaf {
            case .int(let number): return .success(Double(number))
            case .double(let number): return .success(number)
            default: return .failure(NoNumber(position: .notANumber(path)))
            }
        case .null: return .failure(NoNumber(position: .missing(path)))
        case .bool, .text, .object: return .failure(NoNumber(position: .notANumber(path)))
        }
    }
}
