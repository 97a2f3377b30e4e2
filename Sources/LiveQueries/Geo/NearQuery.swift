public import JSONTree

/// The circle of a query, or its centre for the nearest children: `"near": {"lat": 37.975, "lng": 23.735, "radius": 1000, "limit": 20}`.
public struct NearQuery: Sendable, Hashable {
    public internal(set) var centre: GeoPoint
    /// `radius`; nil for no limit on the distance.
    public let metres: Double?
    /// Maximum number of nearest children.
    public let limit: Int?
    /// The position fields of the children, once taken from the rules.
    public internal(set) var fields: GeoFields?
    /// For a count: metres of a grid. Each child's position is moved to the nearest grid point before it is compared with the circle. So no number of
    /// circles reveals where a child is within its grid square. Nil for exact positions.
    public internal(set) var grid: Double?

    public init(centre: GeoPoint, metres: Double?, limit: Int?, fields: GeoFields? = nil) {
        self.centre = centre
        self.metres = metres
        self.limit = limit
        self.fields = fields
    }

    /// Reads the value of a `near`.
    /// - Throws: `QueryFault`, which names the member.
    public init(_ json: JSONValue, limits: NearLimits = NearLimits()) throws(QueryFault) {
        guard let members = json.members else { throw .malformed("near", "must be an object, as {\"lat\":37.9,\"lng\":23.7,\"radius\":1000}") }
        var (latitude, longitude, metres, limit) = (Double?.none, Double?.none, Double?.none, Int?.none)
        for member in members {
            switch member.name {
            case "lat": latitude = try Self.number(member)
            case "lng": longitude = try Self.number(member)
            case "radius":
                let radius = try Self.number(member)
                guard radius > 0 else { throw .malformed("near.radius", "must be greater than 0 metres") }
                metres = radius
            case "limit":
                guard case .int(let number) = member.value, number > 0 else {
                    throw .malformed("near.limit", "must be an integer greater than 0")
                }
                guard number <= limits.nearest else { throw .tooBig("near.limit", "must be at most \(limits.nearest)") }
                limit = Int(number)
            default: throw .malformed("near", "has no member \"\(member.name.prefix(64))\"")
            }
        }
        guard let latitude else { throw .malformed("near", "\"lat\" is missing") }
        guard let longitude else { throw .malformed("near", "\"lng\" is missing") }
        guard let centre = GeoPoint(latitude: latitude, longitude: longitude) else {
            throw latitude.magnitude <= 90
                ? .malformed("near.lng", "must be from -180 to 180") : .malformed("near.lat", "must be from -90 to 90")
        }
        self.init(centre: centre, metres: metres, limit: limit)
    }

    private static func number(_ member: JSONValue.Member) throws(QueryFault) -> Double {
        switch member.value {
        case .int(let number): return Double(number)
        case .double(let number) where number.isFinite: return number
        default: throw .malformed("near.\(member.name)", "must be a number")
        }
    }

    /// The square of the chord of the radius.
    var reach: Double { metres.map { GeoPoint.chordSquared(metres: $0) } ?? .infinity }
    /// The squared chord beyond which no child counts, wherever the grid moves it.
    var outerReach: Double { metres.map { GeoPoint.chordSquared(metres: $0 + shift) } ?? .infinity }
    /// The squared chord up to which every child counts; negative for none.
    var innerReach: Double { metres.map { $0 > shift ? GeoPoint.chordSquared(metres: $0 - shift) : -1 } ?? .infinity }

    /// The maximum distance in metres by which the grid moves a position: half a row plus half a step within the row. Next to a pole, a step is up to
    /// two rows wide.
    private var shift: Double { grid.map { $0 * 1.5 } ?? 0 }

    /// True if the circle contains a position, after moving it to the grid if there is one.
    func contains(_ point: GeoPoint) -> Bool {
        let chordSquared = point.chordSquared(centre)
        guard let grid else { return chordSquared <= reach }
        if chordSquared > outerReach { return false }
        return chordSquared <= innerReach || point.snapped(toMetres: grid).chordSquared(centre) <= reach
    }
}

/// Limits of one `near`.
public struct NearLimits: Sendable {
    /// Maximum `limit`. Default 1,000.
    package var nearest = 1_000

    public init() {}
}
