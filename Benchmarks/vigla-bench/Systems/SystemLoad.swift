/// The load of one of the five systems (Examples): its data, its clients, and what they do. Figures are those of a full load.
protocol SystemLoad {
    /// The folder in Examples, and the database.
    static var name: String { get }
    static var connections: Int { get }
    /// The kinds of requests.
    static var flows: [LoadFlow] { get }

    /// - Parameters:
    ///   - connections: number of clients, numbered from 0.
    ///   - now: ms since 1970.
    init(connections: Int, now: Int64)

    /// The data at the start, as JSON.
    func seed() -> String
    /// The user of a connection, and further claims of his token as JSON members.
    func user(of connection: Int) -> (uid: String, claims: String)
    /// The observers of a connection, as the members of their requests. The first one is that of deliveries.
    func observers(of connection: Int) -> [String]
    /// The next request of a flow.
    mutating func next(_ flow: Int, _ random: inout some RandomNumberGenerator) -> LoadStep
}

/// Requests of one kind, sent at a constant rate.
struct LoadFlow {
    let name: String
    /// At full load.
    let perSecond: Double
    /// At most this many ms until the answer, and until the followers' events, for 95 % or 99 % of them.
    var answered: LoadTarget?
    var delivered: LoadTarget?
}

/// A latency that the systems demand.
struct LoadTarget {
    let percentile: Double
    let ms: Double
}

/// One request: its connection, the members of the message, and the connections whose first observer then gets an event.
struct LoadStep {
    let connection: Int
    let members: String
    var followers: Range<Int> = 0..<0
}

extension SystemLoad {
    static func set(_ path: String, _ value: String) -> String { #""op":"set","path":"\#(path)","value":\#(value)"# }
    static func update(_ value: String) -> String { #""op":"update","path":"/","value":\#(value)"# }
    static func observe(_ path: String, _ query: String? = nil, events: String = #"["added","changed","removed"]"#) -> String {
        #""op":"observe","path":"\#(path)","events":\#(events)"# + (query.map { #","query":\#($0)"# } ?? "")
    }
    static func value(_ path: String) -> String { observe(path, events: #"["value"]"#) }

    /// The members of a point in the city.
    static func at(_ number: Int) -> String {
        let point = cityPoint(number)
        return #""latitude":\#(point.latitude),"longitude":\#(point.longitude)"#
    }

    /// A JSON object.
    static func object(_ count: Int, _ member: (Int) -> (key: String, value: String)) -> String {
        var text = "{"
        for i in 0..<count {
            let (key, value) = member(i)
            text += (i > 0 ? "," : "") + #""\#(key)":\#(value)"#
        }
        return text + "}"
    }
}

/// A point in a city of about 20 by 20 km, by a number: always the same.
func cityPoint(_ number: Int) -> (latitude: Double, longitude: Double) {
    let mixed = UInt64(truncatingIfNeeded: number) &* 0x9E37_79B9_7F4A_7C15
    return (37.9 + Double(mixed >> 44) / Double(1 << 20) * 0.18, 23.65 + Double(mixed & 0xFFFFF) / Double(1 << 20) * 0.23)
}
