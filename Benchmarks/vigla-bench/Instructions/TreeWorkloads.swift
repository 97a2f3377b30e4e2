import JSONTree
import SecurityRules

extension Workload {
    /// A record of 320 bytes, as a phone writes its position.
    static let record = Array(
        (#"{"uid":"k7Fh2Lq9ZxT4bNnP0sVd","name":"Andreas Papadopoulos","lat":37.983917,"lng":23.729361,"accuracy":12.5,"speed":1.4,"#
            + #""heading":271,"battery":83,"time":1763846400123,"status":"walking home","message":"I am on my way, call me when you see "#
            + #"this please","danger":false,"followers":{"u1":true,"u2":true,"u3":true},"v":2}"#).utf8)

    static func parsed(_ json: [UInt8]) throws -> Node {
        try json.withUnsafeBytes { bytes in
            var reader = JSONReader(bytes)
            return try reader.writeValue().node
        }
    }

    static let trees: [Workload] = [
        Workload(name: "record-parsed", count: 500) {
            { times in for _ in 0..<times { workloadSink &+= try parsed(record).childCount } }
        },
        Workload(name: "record-encoded", count: 500) {
            let node = try parsed(record)
            return { times in
                for _ in 0..<times {
                    var writer = JSONWriter(reservingCapacity: 512)
                    writer.node(node)
                    workloadSink &+= writer.bytes.count
                }
            }
        },
        // The previous version is retained, as a reader would.
        Workload(name: "packed-field-set", count: 1_000) {
            var node = try parsed(record)
            let path: Path = "lat"
            return { times in
                for i in 0..<times {
                    let before = node
                    node.set(.double(Double(i) + 0.25), at: path)
                    workloadSink &+= before.childCount
                }
            }
        },
        Workload(name: "tree-field-set", count: 500) {
            var root = try records(2_000)
            return { times in
                for i in 0..<times {
                    let before = root
                    root.set(.double(Double(i) + 0.25), at: Path(["users", key(i &* 7919 % 2_000), "lat"]))
                    workloadSink &+= before.childCount
                }
            }
        },
        Workload(name: "record-read", count: 1_000) {
            let root = try records(2_000)
            return { times in
                for i in 0..<times { workloadSink &+= root.node(at: Path(["users", key(i &* 7919 % 2_000)])).childCount }
            }
        },
    ]

    private static func key(_ i: Int) -> Key { Key("-Nx8sKq2Ld0aB\(1_000_000 + i)") }

    private static func records(_ count: Int) throws -> Node {
        let one = try parsed(record)
        return ["users": .object((0..<count).map { (key($0), one) })]
    }

    /// A follower's position: two wildcard levels, two look-ups elsewhere, four validated fields.
    static let rules = Workload(name: "rules-evaluated", count: 500) {
        let rules = try RuleSet(parsing: """
            {"rules": {
              "friends": {"$a": {"$b": {".write": "auth.uid === $a"}}},
              "follow": {"$follower": {"$user": {
                ".read": "auth.uid === $follower",
                "current": {
                  ".write": "auth.uid === $user && root.child('friends').child($user).child($follower).val() === 'added' \
            && root.child('friends').child($follower).child($user).val() === 'added'",
                  ".validate": "newData.hasChildren(['latitude', 'longitude', 'at'])",
                  "latitude": {".validate": "newData.isNumber() && newData.val() >= -90 && newData.val() <= 90"},
                  "longitude": {".validate": "newData.isNumber() && newData.val() >= -180 && newData.val() <= 180"},
                  "at": {".validate": "newData.isNumber() && newData.val() <= now"},
                  "acc": {".validate": "newData.isNumber()"},
                  "$other": {".validate": false}
                }
              }}}
            }}
            """)
        let (user, follower) = ("userWithALongIdentifier10500", "userWithALongIdentifier10501")
        var old = Node.null
        for i in 0..<200 {
            let (one, other) = ("userWithALongIdentifier\(10_400 + i)", "userWithALongIdentifier\(10_401 + i)")
            old.set("added", at: Path(["friends", Key(one), Key(other)]))
            old.set("added", at: Path(["friends", Key(other), Key(one)]))
        }
        let place = Path(["follow", Key(follower), Key(user), "current"])
        let now: Int64 = 1_790_000_000_000
        var new = old
        new.set(["latitude": 37.9553, "longitude": 23.7021, "at": .int(now), "acc": 5], at: place)
        let auth: Node = ["uid": .string(user), "provider": "password", "token": ["sub": .string(user), "email_verified": true]]
        guard rules.allowsWrite([place], old: old, new: new, auth: auth, now: now) else {
            throw BenchError.unexpected("the write was refused")
        }
        return { [old, new] times in
            for _ in 0..<times { if rules.allowsWrite([place], old: old, new: new, auth: auth, now: now) { workloadSink &+= 1 } }
        }
    }
}
