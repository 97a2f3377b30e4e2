import HubEngine
import JSONTree
import SecurityRules

extension Workload {
    /// A post that is copied to the timelines of 500 friends: one commit of 502 places, with rules that are evaluated for each copy. Measures the
    /// database queue and its background work.
    static let copies = Workload(name: "post-to-500-friends", count: 4) {
        let friends = try PostToFriends(500)
        return { times in
            for _ in 0..<times { _ = try friends.post() }
            workloadSink &+= friends.posts
        }
    }
}

/// A network of friends whose posts are copied, as in `Examples/watchme`.
final class PostToFriends {
    private let hub: BenchHub
    private let author: Client
    private(set) var posts = 0

    init(_ count: Int) throws {
        let rules = try RuleSet(parsing: Self.rules)
        var root = Node.null
        for friend in 0..<count {
            let name = Self.friend(friend)
            root.set("added", at: Path(["users-friends", Self.author, name]))
            root.set("added", at: Path(["users-friends", name, Self.author]))
            root.set(.object((0..<50).map { (Self.key($0), Self.post($0)) }), at: Path(["timeline", name]))
        }
        hub = try BenchHub(root: root, rules: rules)
        let auth: Node = ["uid": .string(Self.author.string), "provider": "password", "token": ["email_verified": true]]
        author = Client(lane: 0, dialect: .realtime, identity: Identity(auth: auth))
    }

    /// Writes the next post.
    /// - Returns: µs of CPU time until it is answered.
    func post() throws -> Double {
        let number = 1_000 + posts
        posts += 1
        let micros = hub.micros(TreeWrite(Path(["posts", Self.key(number)]), WriteValue(Self.post(number))), by: author)
        try hub.expectNothingRefused()
        return micros
    }

    private static let author = Key("k7Fh2Lq9ZxT4bNnP0sVd0000000")

    private static func friend(_ i: Int) -> Key { Key("k7Fh2Lq9ZxT4bNnP0sVd\(1_000_000 + i * 7919 % 1_000_000)") }
    private static func key(_ i: Int) -> Key { Key("-Nx8sKq2Ld0aB\(1_000_000 + i)") }

    private static func post(_ i: Int) -> Node {
        [
            "user": .string(author.string), "timestamp": .int(1_700_000_000 - Int64(i)), "latitude": 37.983917,
            "longitude": 23.729361, "description": "Somebody follows me, at the corner behind the station", "policeArrived": false,
        ]
    }

    private static let rules = #"""
        {"functions": {
          "same(a, b)": "a.child('user').val() == b.child('user').val() && a.child('timestamp').val() == b.child('timestamp').val()
            && a.child('latitude').val() == b.child('latitude').val() && a.child('longitude').val() == b.child('longitude').val()
            && a.child('description').val() == b.child('description').val()
            && a.child('policeArrived').val() == b.child('policeArrived').val()
            && a.child('falseAlarm').val() == b.child('falseAlarm').val()"
        },
        "rules": {
          "users-friends": {"$a": {".read": "auth.uid == $a"}},
          "posts": {
            ".indexOn": "user",
            "$post": {
              ".write": "!data.exists() && newData.child('user').val() == auth.uid
                && newData.child('timestamp').val() * 1000 <= now + 600000",
              ".validate": "newData.hasChildren(['user', 'timestamp', 'latitude', 'longitude', 'policeArrived'])",
              ".copy": [
                "users-posts/{user}/$post",
                {
                  "to": "timeline/$friend/$post", "each": "users-friends/{user}/$friend",
                  "if": "each.val() == 'added'
                    && newRoot.child('users-friends').child($friend).child(newData.child('user').val()).val() == 'added'"
                }
              ],
              ".expire": [{
                "at": "data.child('timestamp').val() * 1000 + 65743200000", "if": "data.child('user').val() != 'deleted'",
                "patch": {"user": "'deleted'"}
              }],
              "timestamp": {".validate": "newData.isNumber() && newData.val() % 1 == 0"},
              "latitude": {".validate": "newData.isNumber() && newData.val() >= -90 && newData.val() <= 90"},
              "longitude": {".validate": "newData.isNumber() && newData.val() >= -180 && newData.val() <= 180"},
              "description": {".validate": "newData.isString() && newData.val().length <= 500"},
              "policeArrived": {".validate": "newData.isBoolean()"},
              "user": {},
              "$other": {".validate": false}
            }
          },
          "users-posts": {"$uid": {"$post": {
            ".validate": "same(newData, newRoot.child('posts').child($post))",
            "user": {}, "timestamp": {}, "latitude": {}, "longitude": {}, "description": {}, "policeArrived": {}, "falseAlarm": {},
            "$other": {".validate": false}
          }}},
          "timeline": {"$uid": {
            ".indexOn": "timestamp", ".read": "auth.uid == $uid",
            "$post": {
              ".validate": "same(newData, newRoot.child('posts').child($post))",
              ".expire": "data.child('timestamp').val() * 1000 + 34560000000",
              "user": {}, "timestamp": {}, "latitude": {}, "longitude": {}, "description": {}, "policeArrived": {}, "falseAlarm": {},
              "$other": {".validate": false}
            }
          }}
        }}
        """#
}
