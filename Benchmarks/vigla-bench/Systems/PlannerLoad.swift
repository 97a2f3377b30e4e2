/// The evening: phones report positions, pickers ask for the places of a type, and people write down what they will do.
struct PlannerLoad: SystemLoad {
    static let name = "planner"
    static let connections = 800
    static let flows = [
        LoadFlow(name: "position", perSecond: 16, answered: LoadTarget(percentile: 95, ms: 20)),
        LoadFlow(name: "places of a type", perSecond: 20, answered: LoadTarget(percentile: 95, ms: 20)),
        LoadFlow(name: "activity", perSecond: 10, delivered: LoadTarget(percentile: 95, ms: 20)),
    ]

    private let (connections, now): (Int, Int64)
    private static let types = 300
    private var sent = 0

    init(connections: Int, now: Int64) { (self.connections, self.now) = (connections, now) }

    func user(of connection: Int) -> (uid: String, claims: String) { ("u\(connection)", #""email_verified":true"#) }

    func seed() -> String {
        let types = Self.object(Self.types) { ("t\($0)", #"{"title":"t\#($0)","alarmTime":30,"origin":"admin"}"#) }
        let places = Self.object(100_000) { i in
            let about = #""types":{"t\#(i % Self.types)":true},"origin":"user","author":"u\#(i % 999)","publishedAt":\#(now)"#
            return ("p\(i)", #"{"title":"Place \#(i)",\#(Self.at(i)),\#(about)}"#)
        }
        return #"{"types":\#(types),"catalog":{"user":\#(places)}}"#
    }

    func observers(of connection: Int) -> [String] {
        let user = "u\(connection)"
        return [
            Self.observe("/activities/\(user)/scheduled", #"{"orderBy":"startDate"}"#), Self.observe("/reminders/\(user)"),
            Self.observe("/friends/\(user)"), Self.observe("/inbox/\(user)"),
        ]
    }

    mutating func next(_ flow: Int, _ random: inout some RandomNumberGenerator) -> LoadStep {
        sent += 1
        let user = Int.random(in: 0..<connections, using: &random)
        switch flow {
        case 0:
            let value = #"{\#(Self.at(sent)),"at":\#(now),"acc":20}"#
            return LoadStep(connection: user, members: Self.set("/live/u\(user)", value))
        case 1:
            let query = #"{"orderBy":"types/t\#(sent % Self.types)","equalTo":true}"#
            return LoadStep(connection: user, members: #""op":"get","path":"/catalog/user","query":\#(query)"#)
        default:
            let value = #"{"title":"Buy bread","startDate":\#(now + 3_600_000),"done":false,"rev":1}"#
            return LoadStep(
                connection: user, members: Self.set("/activities/u\(user)/scheduled/a\(sent)", value), followers: user..<(user + 1))
        }
    }
}
