/// A Saturday night: walkers send their position every three seconds to those who follow them, alarms go to all friends, and visitors
/// count the alarms around them.
struct WatchMeLoad: SystemLoad {
    static let name = "watchme"
    static let connections = 2_000
    static let flows = [
        LoadFlow(name: "position", perSecond: 100, delivered: LoadTarget(percentile: 99, ms: 250)),
        LoadFlow(name: "alarm to 40 friends", perSecond: 0.5, delivered: LoadTarget(percentile: 99, ms: 500)),
        LoadFlow(name: "count around", perSecond: 70, answered: LoadTarget(percentile: 95, ms: 10)),
    ]

    private let (connections, now): (Int, Int64)
    /// The first connections are walkers, and the next ones follow them, half of the walkers by two.
    private var walkers: Int { connections * 3 / 20 }
    private var followers: Int { walkers * 3 / 2 }
    /// Users are friends of all others in their circle.
    private static let circle = 41
    private var sent = 0

    init(connections: Int, now: Int64) { (self.connections, self.now) = (connections, now) }

    func user(of connection: Int) -> (uid: String, claims: String) { ("u\(connection)", #""email_verified":true"#) }

    private func circle(of user: Int) -> Range<Int> {
        let first = user / Self.circle * Self.circle
        return first..<min(connections, first + Self.circle)
    }

    func seed() -> String {
        let start = #""startedAt":\#(now),"dueAt":\#(now + 36_000_000),"status":"active""#
        let follows = Self.object(followers) { i in
            ("u\(walkers + i)", #"{"u\#(i % walkers)":{\#(start)}}"#)
        }
        let friends = Self.object(connections) { user in
            // Those who walk together are friends, too.
            var others = Set(circle(of: user)).subtracting([user])
            if user < walkers {
                others.formUnion(stride(from: walkers + user, to: walkers + followers, by: walkers))
            } else if user < walkers + followers {
                others.insert((user - walkers) % walkers)
            }
            let all = Array(others)
            return ("u\(user)", Self.object(all.count) { ("u\(all[$0])", #""added""#) })
        }
        let posts = Self.object(50_000) { i in
            let time = now / 1000 - Int64(i) * 6_000
            return ("old\(i)", #"{"user":"deleted","timestamp":\#(time),\#(Self.at(i)),"policeArrived":true}"#)
        }
        return #"{"users-follow":\#(follows),"users-friends":\#(friends),"posts":\#(posts)}"#
    }

    func observers(of connection: Int) -> [String] {
        let follows = walkers..<(walkers + followers) ~= connection
        return (follows ? [Self.value("/users-follow/u\(connection)/u\((connection - walkers) % walkers)/current")] : []) + [
            Self.observe("/timeline/u\(connection)", #"{"orderBy":"timestamp","limitToLast":50}"#),
            Self.observe("/users-friends/u\(connection)"), Self.observe("/users-follow/u\(connection)"),
        ]
    }

    mutating func next(_ flow: Int, _ random: inout some RandomNumberGenerator) -> LoadStep {
        sent += 1
        switch flow {
        case 0:
            // The walkers in turn. One request tells one follower, so that its delivery is known.
            let follower = walkers + sent % followers
            let walker = (follower - walkers) % walkers
            let value = #"{\#(Self.at(sent)),"at":{".sv":"timestamp"},"acc":12}"#
            return LoadStep(
                connection: walker, members: Self.set("/users-follow/u\(follower)/u\(walker)/current", value),
                followers: follower..<(follower + 1))
        case 1:
            // Those who follow nobody: their first observer is the timeline.
            let author = Int.random(in: (walkers + followers)..<connections, using: &random)
            let time = Int64.random(in: 0..<600, using: &random)
            let value = #"{"user":"u\#(author)","timestamp":\#(now / 1000 - time),\#(Self.at(sent)),"policeArrived":false}"#
            let friends = circle(of: author).clamped(to: (walkers + followers)..<connections)
            return LoadStep(
                connection: author, members: Self.set("/posts/alarm\(sent)", value),
                followers: author == friends.lowerBound ? (author + 1)..<friends.upperBound : friends.lowerBound..<author)
        default:
            let (user, point) = (Int.random(in: 0..<connections, using: &random), cityPoint(sent))
            let query = #"{"near":{"lat":\#(point.latitude),"lng":\#(point.longitude),"radius":1000}}"#
            return LoadStep(connection: user, members: #""op":"count","path":"/posts","query":\#(query)"#)
        }
    }
}
