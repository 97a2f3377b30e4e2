/// A bad-weather day: reports reach the feeds around them, people vote, and phones report positions.
struct WatchrLoad: SystemLoad {
    static let name = "watchr"
    static let connections = 1_500
    static let flows = [
        LoadFlow(name: "report", perSecond: 0.8, delivered: LoadTarget(percentile: 95, ms: 200)),
        LoadFlow(name: "vote", perSecond: 20, answered: LoadTarget(percentile: 95, ms: 50)),
        LoadFlow(name: "page of a feed", perSecond: 30, answered: LoadTarget(percentile: 95, ms: 20)),
        LoadFlow(name: "position", perSecond: 28, answered: LoadTarget(percentile: 95, ms: 20)),
    ]

    private let (connections, now): (Int, Int64)
    private static let events = 3_000
    private var sent = 0

    init(connections: Int, now: Int64) { (self.connections, self.now) = (connections, now) }

    func user(of connection: Int) -> (uid: String, claims: String) { ("u\(connection)", #""email_verified":true"#) }

    func seed() -> String {
        let users = Self.object(connections) { ("u\($0)", #"{"username":"user-\#($0)","account_status":"active","created_at":\#(now)}"#) }
        let events = Self.object(Self.events) { i in
            let about = #""event_name":"Event \#(i)","position":{\#(Self.at(i))},"categories":{"other":true},"urgency":1"#
            let state = #""event_status":"open","conversation_status":"open","created_by":"somebody""#
            let times = #""created_at":\#(now),"updated_at":\#(now),"expires_at":\#(now + 86_400_000)"#
            let counts = #""event_rating":0,"votes_count":0,"comments_count":0,"followers_count":0,"media_count":0,"hasMedia":false"#
            return ("e\(i)", "{\(about),\(state),\(times),\(counts)}")
        }
        let categories = #"{"other":{"category_name":"Other","category_icon":"x","default_hours":24,"fence_radius":500}}"#
        return #"{"users":\#(users),"events":\#(events),"categories":\#(categories)}"#
    }

    /// Open reports within 5 km.
    private func feed(_ number: Int, _ limit: String = "") -> String {
        let point = cityPoint(number)
        let near = #"{"lat":\#(point.latitude),"lng":\#(point.longitude),"radius":5000}"#
        return #"{"where":[["event_status","==","open"]],"near":\#(near)\#(limit)}"#
    }

    func observers(of connection: Int) -> [String] {
        let user = "u\(connection)"
        return [
            Self.observe("/events", feed(connection)), Self.observe("/notifications/\(user)"), Self.observe("/following/\(user)"),
            Self.value("/users/\(user)"),
        ]
    }

    mutating func next(_ flow: Int, _ random: inout some RandomNumberGenerator) -> LoadStep {
        sent += 1
        let user = Int.random(in: 0..<connections, using: &random)
        switch flow {
        case 0:
            // At the reporter's own place, so that his feed has it.
            let about = #""event_name":"Flood \#(sent)","expires_at":\#(now + 86_400_000),"categories":{"other":true}"#
            let value = #"{\#(about),"position":{\#(Self.at(user))}}"#
            return LoadStep(connection: user, members: Self.set("/events/new\(sent)", value), followers: user..<(user + 1))
        case 1:
            return LoadStep(connection: user, members: Self.set("/votes/e\(Int.random(in: 0..<Self.events, using: &random))/u\(user)", "1"))
        case 2:
            let query = feed(sent, #","orderBy":"event_rating","limitToLast":30"#)
            return LoadStep(connection: user, members: #""op":"get","path":"/events","query":\#(query)"#)
        default:
            let value = #"{\#(Self.at(sent)),"acc":20}"#
            return LoadStep(connection: user, members: Self.set("/live/u\(user)", value))
        }
    }
}
