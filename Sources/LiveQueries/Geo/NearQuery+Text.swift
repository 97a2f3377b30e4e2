public import JSONTree

/// The text form, in `near=` of REST and `--near` of the command line: the JSON form, or numbers separated by commas.
///
///     37.975,23.735,1000        within 1,000 m
///     37.975,23.735,1000,20     the 20 nearest of those
///     37.975,23.735,,20         the 20 nearest
extension NearQuery {
    /// - Throws: `QueryFault`, which names the member.
    public init(text: String, limits: NearLimits = NearLimits()) throws(QueryFault) {
        guard text.utf8.count <= Self.textBytes else { throw .tooBig("near", "has more than \(Self.textBytes) bytes") }
        if text.utf8.first(where: { $0 != UInt8(ascii: " ") }) == UInt8(ascii: "{") {
            let json: JSONValue
            do throws(JSONError) { json = try JSONValue(Array(text.utf8)) } catch { throw .malformed("near", "is no JSON: \(error.description)") }
            try self.init(json, limits: limits)
            return
        }
        let form = QueryFault.malformed("near", "must be lat,lng,radius or lat,lng,radius,limit, as 37.975,23.735,1000, or an object")
        let parts = text.split(separator: ",", omittingEmptySubsequences: false)
        guard (2...4).contains(parts.count) else { throw form }
        var members: [JSONValue.Member] = []
        for (name, part) in zip(["lat", "lng", "radius", "limit"], parts) where !part.allSatisfy({ $0 == " " }) {
            switch try? JSONValue(Array(part.utf8)) {
            case .int(let number): members.add(name, .int(number))
            case .double(let number): members.add(name, .double(number))
            default: throw form
            }
        }
        try self.init(.object(members), limits: limits)
    }

    private static let textBytes = 1024

    /// As JSON; `NearQuery(json)` reads it back.
    public var json: JSONValue {
        var members: [JSONValue.Member] = [.init("lat", Self.json(centre.latitude)), .init("lng", Self.json(centre.longitude))]
        if let metres { members.add("radius", Self.json(metres)) }
        if let limit { members.add("limit", .int(Int64(limit))) }
        return .object(members)
    }

    /// Writes a whole number without a decimal point.
    private static func json(_ number: Double) -> JSONValue { Int64(exactly: number).map { .int($0) } ?? .double(number) }
}
