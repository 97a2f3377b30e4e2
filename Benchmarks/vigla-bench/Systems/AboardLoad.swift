/// A campus in the morning: people open the list and mark notifications as read. An announcement goes to the 300 subscribers of a tag;
/// one to everybody is the storm (`Storm`).
struct AboardLoad: SystemLoad {
    static let name = "aboard"
    static let connections = 2_000
    static let flows = [
        LoadFlow(name: "list opened", perSecond: 20, answered: LoadTarget(percentile: 95, ms: 150)),
        LoadFlow(name: "tag subscribed", perSecond: 1, answered: LoadTarget(percentile: 95, ms: 50)),
    ]

    /// Accounts, most of them not connected.
    static let accounts = 20_000
    private let (connections, now): (Int, Int64)
    private var sent = 0

    init(connections: Int, now: Int64) { (self.connections, self.now) = (connections, now) }

    func user(of connection: Int) -> (uid: String, claims: String) {
        ("u\(connection)", #""email_verified":true"# + (connection == 0 ? #","role":"author""# : ""))
    }

    func seed() -> String {
        let subscriptions = Self.object(Self.accounts) { ("u\($0)", $0 < 300 ? #"{"t1":true,"t2":true}"# : #"{"t2":true}"#) }
        let tags = Self.object(9) { ("t\($0 + 1)", #"{"id":\#($0 + 1),"title":"Tag \#($0 + 1)","kind":"general"}"#) }
        let body = String(repeating: "The examination results are out. ", count: 60)
        let announcements = Self.object(50) { i in
            let about = #""author":{"uid":"a","name":"A"},"public":true,"created_at":\#(now - 1_000_000 + Int64(i))"#
            return ("old\(i)", #"{"id":\#(i),"title":"Announcement \#(i)","body":"\#(body)",\#(about)}"#)
        }
        let others = #""authors":{"u0":{"name":"The dean"}},"counters":{"next_id":100}"#
        return #"{"subscriptions":\#(subscriptions),"tags":\#(tags),"announcements":\#(announcements),\#(others)}"#
    }

    private static let list = #"{"orderBy":"created_at","limitToLast":20}"#

    func observers(of connection: Int) -> [String] {
        [
            Self.observe("/notifications/u\(connection)", #"{"orderBy":"created_at","limitToLast":20}"#),
            Self.observe("/announcements", Self.list), Self.value("/subscriptions/u\(connection)"),
        ]
    }

    mutating func next(_ flow: Int, _ random: inout some RandomNumberGenerator) -> LoadStep {
        sent += 1
        let user = Int.random(in: 0..<connections, using: &random)
        if flow == 0 { return LoadStep(connection: user, members: #""op":"get","path":"/announcements","query":\#(Self.list)"#) }
        return LoadStep(connection: user, members: Self.set("/subscriptions/u\(user)/t\(3 + sent % 6)", "true"))
    }
}
