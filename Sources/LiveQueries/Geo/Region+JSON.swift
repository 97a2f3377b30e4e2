public import JSONTree

/// The forms of a region in requests and in the tree.
///
///     {"south": 37.9, "west": 23.6, "north": 38.1, "east": 23.9}       a box
///     [37.9, 23.6, 38.1, 23.9]                                         the same: south, west, north, east
///     [[37.9, 23.6], [38.1, 23.6], [38.0, 23.9]]                       a polygon: points of latitude and longitude
///     [{"lat": 37.9, "lng": 23.6}, …]                                  the same
///     {"type": "Polygon", "coordinates": [[[23.6, 37.9], …]]}          the same in GeoJSON: longitude first, one ring
///     {"lat": 37.975, "lng": 23.735, "radius": 1000}                   a circle, in metres
extension Region {
    /// - Parameter name: how errors name the region, such as `within`.
    /// - Throws: `QueryFault`, which names the member or the point, counted from 0: `within[2]`.
    public init(_ json: JSONValue, named name: String = "within") throws(QueryFault) {
        var visits = 0
        try self.init(json, named: name, visits: &visits)
    }

    private init(_ json: JSONValue, named name: String, visits: inout Int) throws(QueryFault) {
        if let elements = json.elements {
            guard elements.count == 4, elements.allSatisfy({ Self.number($0) != nil }) else {
                self = .polygon(try GeoPolygon(Self.ring(elements, name), named: name, visits: &visits))
                return
            }
            self = .box(try Self.box(zip(["south", "west", "north", "east"], elements).map { .init($0, $1) }, name))
            return
        }
        guard let members = json.members else { throw Self.form(name) }
        let names = Set(members.map(\.name))
        if names.contains("type") || names.contains("coordinates") {
            self = .polygon(try Self.geoJSON(members, name, &visits))
        } else if !names.isDisjoint(with: ["lat", "lng", "radius"]) {
            self = .circle(try Self.circle(members, name))
        } else if !names.isDisjoint(with: ["south", "west", "north", "east"]) {
            self = .box(try Self.box(members, name))
        } else {
            throw Self.form(name)
        }
    }

    /// Reads a region that is stored in the tree, where a list is an object with the keys 0, 1, 2…. The points of a ring may have any keys, such
    /// as those of `push`: their order counts. Reads no more nodes than a polygon may have, and no long strings.
    /// - Parameter visits: counts the work, in visits of an index (about 50 ns), also for a refused region.
    public init(stored node: Node, named name: String = "within", visits: inout Int) throws(QueryFault) {
        guard node.exists else { throw .malformed(name, "is not stored: nothing is there") }
        var left = Self.mostStored
        defer { visits += Self.visitsPerNode * (Self.mostStored - left) }
        guard let json = try Self.json(of: node, &left, name) else { throw .tooBig(name, "has more than \(GeoPolygon.mostPoints) points") }
        let isRing = json.members?.allSatisfy { $0.value.elements != nil || $0.value.members != nil } ?? false
        if isRing, let members = json.members, members.count > 2 {
            try self.init(.array(members.map(\.value)), named: name, visits: &visits)
        } else {
            try self.init(json, named: name, visits: &visits)
        }
    }

    /// As JSON; `Region(json)` reads it back.
    public var json: JSONValue {
        switch self {
        case .circle(let circle):
            return .object([
                .init("lat", Self.json(circle.centre.latitude)), .init("lng", Self.json(circle.centre.longitude)),
                .init("radius", Self.json(circle.metres)),
            ])
        case .box(let box):
            let edges = box.edges
            return .object([
                .init("south", Self.json(edges.south)), .init("west", Self.json(edges.west)), .init("north", Self.json(edges.north)),
                .init("east", Self.json(edges.east)),
            ])
        case .polygon(let polygon): return .array(polygon.points.map { .array([Self.json($0.latitude), Self.json($0.longitude)]) })
        }
    }

    // MARK: Parts

    private static func form(_ name: String) -> QueryFault {
        .malformed(
            name,
            "must be a box, as {\"south\":37.9,\"west\":23.6,\"north\":38.1,\"east\":23.9}, a polygon, as [[lat,lng],…] or GeoJSON, "
                + "or a circle")
    }

    private static func number(_ json: JSONValue) -> Double? {
        switch json {
        case .int(let number): Double(number)
        case .double(let number) where number.isFinite: number
        default: nil
        }
    }

    /// The numbers of an object that has these members and no others.
    private static func numbers(_ members: [JSONValue.Member], _ known: [String], _ name: String) throws(QueryFault) -> [Double] {
        var found: [String: Double] = [:]
        for member in members {
            guard known.contains(member.name) else { throw .malformed(name, "has no member \"\(member.name.prefix(64))\"") }
            guard let number = number(member.value) else { throw .malformed("\(name).\(member.name)", "must be a number") }
            found[member.name] = number
        }
        var numbers: [Double] = []
        for part in known {
            guard let number = found[part] else { throw .malformed(name, "\"\(part)\" is missing") }
            numbers.append(number)
        }
        return numbers
    }

    private static func box(_ members: [JSONValue.Member], _ name: String) throws(QueryFault) -> GeoBox {
        let known = ["south", "west", "north", "east"]
        let edges = try numbers(members, known, name)
        for (part, (edge, most)) in zip(known, zip(edges, [90.0, 180, 90, 180])) where edge.magnitude > most {
            throw .malformed("\(name).\(part)", "must be from -\(Int(most)) to \(Int(most))")
        }
        guard let box = GeoBox(south: edges[0], west: edges[1], north: edges[2], east: edges[3]) else {
            throw .malformed("\(name).south", "must not be greater than north")
        }
        return box
    }

    private static func circle(_ members: [JSONValue.Member], _ name: String) throws(QueryFault) -> GeoCircle {
        let numbers = try numbers(members, ["lat", "lng", "radius"], name)
        guard numbers[0].magnitude <= 90 else { throw .malformed("\(name).lat", "must be from -90 to 90") }
        guard let centre = GeoPoint(latitude: numbers[0], longitude: numbers[1]) else {
            throw .malformed("\(name).lng", "must be from -180 to 180")
        }
        guard numbers[2] > 0 else { throw .malformed("\(name).radius", "must be greater than 0 metres") }
        return GeoCircle(centre: centre, metres: numbers[2])
    }

    private static func ring(_ points: [JSONValue], _ name: String) throws(QueryFault) -> [(latitude: Double, longitude: Double)] {
        guard points.count <= GeoPolygon.mostPoints + 1 else { throw .tooBig(name, "has more than \(GeoPolygon.mostPoints) points") }
        var ring: [(latitude: Double, longitude: Double)] = []
        for (i, point) in points.enumerated() {
            let at = "\(name)[\(i)]"
            var numbers: [Double] = []
            if let members = point.members {
                numbers = try Self.numbers(members, ["lat", "lng"], at)
            } else if let elements = point.elements, elements.count == 2 {
                numbers = elements.compactMap { number($0) }
            }
            guard numbers.count == 2 else { throw .malformed(at, "must be a point, as [37.9,23.6] or {\"lat\":37.9,\"lng\":23.6}") }
            guard numbers[0].magnitude <= 90 else { throw .malformed(at, "the latitude, which comes first, must be from -90 to 90") }
            guard numbers[1].magnitude <= 180 else { throw .malformed(at, "the longitude must be from -180 to 180") }
            ring.append((numbers[0], numbers[1]))
        }
        return ring
    }

    /// RFC 7946 §3.1.6: a ring may have heights, which do not count. Holes are refused.
    private static func geoJSON(
        _ members: [JSONValue.Member], _ name: String, _ visits: inout Int
    ) throws(QueryFault) -> GeoPolygon {
        func member(_ part: String) -> JSONValue? { members.last { $0.name == part }?.value }
        guard member("type") == "Polygon" else { throw .malformed("\(name).type", "must be \"Polygon\"") }
        guard let rings = member("coordinates")?.elements, let points = rings.first?.elements else {
            throw .malformed("\(name).coordinates", "must be a list with one ring of points, as [[[lng,lat],…]]")
        }
        guard rings.count == 1 else {
            throw .malformed("\(name).coordinates", "has \(rings.count) rings: a polygon with holes is not supported")
        }
        let ring = "\(name).coordinates[0]"
        guard points.count <= GeoPolygon.mostPoints + 1 else { throw .tooBig(ring, "has more than \(GeoPolygon.mostPoints) points") }
        var found: [(latitude: Double, longitude: Double)] = []
        for (i, point) in points.enumerated() {
            let numbers = (point.elements ?? []).compactMap { number($0) }
            guard (2...3).contains(numbers.count), numbers.count == point.elements?.count else {
                throw .malformed("\(ring)[\(i)]", "must be a point, as [23.6,37.9]")
            }
            guard numbers[0].magnitude <= 180 else {
                throw .malformed("\(ring)[\(i)]", "the longitude, which comes first in GeoJSON, must be from -180 to 180")
            }
            guard numbers[1].magnitude <= 90 else { throw .malformed("\(ring)[\(i)]", "the latitude must be from -90 to 90") }
            found.append((numbers[1], numbers[0]))
        }
        return try GeoPolygon(found, named: ring, visits: &visits)
    }

    /// Nodes of the largest ring with heights, and of what is around it.
    private static let mostStored = 4 * (GeoPolygon.mostPoints + 1) + 8

    /// Reading a node takes as long as so many visits of an index.
    private static let visitsPerNode = 3
    /// The only text in a region is the type of GeoJSON. Longer ones are not copied: they may be large, and many.
    private static let mostTextBytes = 16

    /// A stored value as JSON; an object with the keys 0, 1, 2… is a list. Nil if it has more than `left` nodes.
    /// - Throws: a fault named `name` for a long text, which no region has.
    private static func json(of node: Node, _ left: inout Int, _ name: String) throws(QueryFault) -> JSONValue? {
        left -= 1
        guard left >= 0, node.childCount <= left else { return nil }
        switch node.leaf {
        case .int(let number): return .int(number)
        case .double(let number): return .double(number)
        case .bool(let flag): return .bool(flag)
        case .string(let text):
            guard text.utf8Count <= mostTextBytes else { throw form(name) }
            return .string(text.string)
        default: break
        }
        var members: [JSONValue.Member] = []
        for (i, (key, child)) in node.children.enumerated() {
            guard let value = try json(of: child, &left, name) else { return nil }
            members.append(.init(key.string == "\(i)" ? "" : key.string, value))
        }
        // No key is empty.
        return members.allSatisfy(\.name.isEmpty) && !members.isEmpty ? .array(members.map(\.value)) : .object(members)
    }

    /// Writes a whole number without a decimal point.
    private static func json(_ number: Double) -> JSONValue { Int64(exactly: number).map { .int($0) } ?? .double(number) }
}
