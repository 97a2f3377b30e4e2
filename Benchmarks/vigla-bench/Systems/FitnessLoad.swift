/// A peak hour: running sessions add a point to their route and change their live row every five seconds, which a watch observes.
struct FitnessLoad: SystemLoad {
    static let name = "fitness"
    static let connections = 1_500
    static let flows = [
        LoadFlow(name: "point of a route", perSecond: 100, answered: LoadTarget(percentile: 95, ms: 150)),
        LoadFlow(name: "live row", perSecond: 100, delivered: LoadTarget(percentile: 95, ms: 150)),
        LoadFlow(name: "meal", perSecond: 5, answered: LoadTarget(percentile: 95, ms: 10)),
    ]

    private let (connections, now): (Int, Int64)
    /// The first third are phones with a session, the second third the watches of the same users.
    private var sessions: Int { connections / 3 }
    private var sent = 0

    init(connections: Int, now: Int64) { (self.connections, self.now) = (connections, now) }

    func user(of connection: Int) -> (uid: String, claims: String) {
        ("u\(sessions..<(2 * sessions) ~= connection ? connection - sessions : connection)", #""email_verified":true"#)
    }

    private func live(_ distance: Int) -> String {
        #"{"sid":"s","activity":"run","state":"exercise","startedAt":\#(now),"device":"phone","online":true,"distance":\#(distance)}"#
    }

    func seed() -> String {
        let activity = #"{"name":{"el":"Run","en":"Run"},"image":"x","kind":"distance","met":9,"goals":{"time":true},"order":1}"#
        return #"{"activities":{"run":\#(activity)},"live":\#(Self.object(sessions) { ("u\($0)", live(0)) })}"#
    }

    func observers(of connection: Int) -> [String] {
        let uid = user(of: connection).uid
        return [
            Self.value("/live/\(uid)"), Self.value("/users/\(uid)"), Self.observe("/challenges/\(uid)"),
            Self.observe("/daySummaries/\(uid)", #"{"orderBy":"$key","limitToLast":7}"#),
            Self.observe("/sessions/\(uid)", #"{"orderBy":"startedAt","limitToLast":20}"#),
        ]
    }

    mutating func next(_ flow: Int, _ random: inout some RandomNumberGenerator) -> LoadStep {
        sent += 1
        let phone = sent % sessions
        switch flow {
        case 0:
            let value = #"{"t":{".sv":"timestamp"},\#(Self.at(sent)),"alt":120}"#
            return LoadStep(connection: phone, members: Self.set("/routes/u\(phone)/s/p\(sent)", value))
        case 1:
            return LoadStep(
                connection: phone, members: Self.set("/live/u\(phone)", live(sent)),
                followers: (phone + sessions)..<(phone + sessions + 1))
        default:
            let user = Int.random(in: (2 * sessions)..<connections, using: &random)
            let day = utcDay(now)
            let value = #"{"kind":"macros","label":"Soup","calories":300,"protein":10,"carbohydrates":40,"fats":9,"water":200}"#
            return LoadStep(connection: user, members: Self.set("/daySummaries/u\(user)/\(day)/entries/e\(sent)", value))
        }
    }
}
