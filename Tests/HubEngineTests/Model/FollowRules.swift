import JSONTree
import SecurityRules
import TestSupport

/// A random rules file with the keys that make the hub write, and the same rules in the form that the model reads.
struct FollowRules {
    /// A condition on a node: the `each` node, or the value that a client sends.
    enum Test {
        case always
        case isAbove(Int64)
        case isText(String)
        /// A child equals a text, or the key of a wildcard.
        case child(String, String)

        /// Nil if there is no condition.
        func text(_ node: String) -> String? {
            switch self {
            case .always: nil
            case .isAbove(let number): "\(node).val() > \(number)"
            case .isText(let text): "\(node).val() == '\(text)'"
            case .child(let name, let value): "\(node).child('\(name)').val() == " + (value.hasPrefix("$") ? value : "'\(value)'")
            }
        }

        func holds(_ node: Node, _ keys: [String: Key]) -> Bool {
            switch self {
            case .always: return true
            case .isAbove(let number):
                guard case .int(let value) = node.leaf else { return false }
                return value > number
            case .isText(let text): return node.leaf == .string(text)
            case .child(let name, let value):
                return node.child(Key(name)).leaf == .string(value.hasPrefix("$") ? keys[value]?.string ?? "" : value)
            }
        }
    }

    struct Copy {
        let to: String
        var each: String?
        var test = Test.always
    }

    /// Inbox rows for subscribers whose sets match a node: `$s` of the sets at `subs/$s`.
    struct Inbox {
        enum Names {
            /// The value of a child, the keys of a child, or a literal text.
            case value(String), keys(String), text(String)

            var json: String {
                switch self {
                case .value(let name): quoted("newData.child('\(name)').val()")
                case .keys(let name): quoted("newData.child('\(name)')")
                case .text(let text): quoted("'\(text)'")
                }
            }

            func keys(of node: Node) -> [Key] {
                switch self {
                case .value(let name): if case .string(let text) = node.child(Key(name)).leaf { [Key(text.string)] } else { [] }
                case .keys(let name): node.child(Key(name)).children.map(\.key)
                case .text(let text): [Key(text)]
                }
            }
        }

        let to: String
        /// A set must contain one of these; nil for any set.
        var wanted: [Names]?
        /// A child that names excluded subscribers.
        var not: Names?
        var test = Test.always
        /// A child whose changes send rows again.
        var changes: String?
        static let each = "subs/$s"
        /// Lifetime of a row in ms after the commit.
        static let lasts: Int64 = 600

        var json: String {
            var members = ["\"to\":\(quoted(to)),\"each\":\(quoted(Self.each))"]
            if let wanted { members.append("\"any\":[\(wanted.map(\.json).joined(separator: ","))]") }
            if let not { members.append("\"not\":\(not.json)") }
            if let test = test.text("each") { members.append("\"if\":\(quoted(test))") }
            if let changes {
                members.append("\"changes\":" + quoted("newData.child('\(changes)').val() != data.child('\(changes)').val()"))
            }
            let value = "{\"number\":\"newData.child('number').val()\",\"at\":\"now + \(Self.lasts)\"}"
            members.append("\"value\":\(value)")
            return "{\(members.joined(separator: ","))}"
        }

        /// Whether a subscriber with this set gets a row.
        func reaches(_ key: Key, _ set: Node, of node: Node, _ keys: [String: Key]) -> Bool {
            if not?.keys(of: node).contains(key) == true { return false }
            guard let wanted else { return set.exists && test.holds(set, keys) }
            return wanted.contains { $0.keys(of: node).contains { set.child($0).exists } } && test.holds(set, keys)
        }
    }

    /// A `.removes`: with the node, or when it changes.
    struct Removal {
        let to: String
        var isOnChange = false
        /// On the node before its removal, or after its change.
        var test = Test.always

        var json: String {
            var members = ["\"to\":\(quoted(to))"]
            if let test = test.text(isOnChange ? "newData" : "data") { members.append("\"if\":\(quoted(test))") }
            if isOnChange { members.append("\"on\":\"change\"") }
            return members.count == 1 ? quoted(to) : "{\(members.joined(separator: ","))}"
        }
    }

    struct Counter {
        let name: String
        /// `count`, `sum`, `max`, `min` or `any`.
        var operation = "count"
        let set: String
        /// The child of a member that has its value; nil for the member itself.
        var value: String?
        var test = Test.always
        /// Whether it creates its node.
        var creates = false

        var json: String {
            let parts = [set, value.map { "each.child('\($0)').val()" }, test.text("each")].compactMap { $0 }
            let text = quoted("\(operation)(\(parts.joined(separator: ", ")))")
            return creates ? "{\"value\":\(text),\"creates\":true}" : text
        }

        /// Its value for the members that count.
        func total(_ members: [Node]) -> Node {
            let numbers = members.compactMap { member -> Int64? in
                if case .int(let number) = value.map({ member.child(Key($0)) })?.leaf ?? member.leaf { number } else { nil }
            }
            return switch operation {
            case "count": .int(Int64(members.count))
            case "sum": .int(numbers.reduce(0, +))
            case "max": numbers.max().map { .int($0) } ?? .null
            case "min": numbers.min().map { .int($0) } ?? .null
            default: .bool(!members.isEmpty)
            }
        }
    }

    enum Default {
        case value(Node), now
        /// The time of the first write, whatever the client sends.
        case firstTime
        /// The value of the child `number` at all times, whatever the client sends.
        case sameAsNumber

        var json: String {
            switch self {
            case .value(.string(let text)): quoted("'\(text)'")
            case .value(let node): node.json
            case .now: quoted("now")
            case .firstTime: quoted("data.val(now)")
            case .sameAsNumber: "{\"value\":\(quoted("newData.parent().child('number').val()")),\"always\":true}"
            }
        }
    }

    /// One entry of an `.expire`.
    struct End {
        /// nil: the child `at` holds the time.
        var written: Int64?
        /// Applies only where `state` has this value.
        var state: String?
        /// Applies only where there is no `at`.
        var isWithoutTime = false
        /// Sets `state` to this; otherwise the node is removed.
        var patch: String?
        /// Adds a row with this name to the log.
        var log: String?

        var json: String {
            var members = ["\"at\":" + quoted(written.map { "written + \($0)" } ?? "data.child('at').val()")]
            var tests: [String] = []
            if let state { tests.append("data.child('state').val() == '\(state)'") }
            if isWithoutTime { tests.append("!data.hasChild('at')") }
            if !tests.isEmpty { members.append("\"if\":" + quoted(tests.joined(separator: " && "))) }
            if let patch { members.append("\"patch\":{\"state\":\(quoted("'\(patch)'"))}") }
            if let log {
                let time = written == nil ? "" : #","written":"written""#
                members.append(#""log":"log","value":{"name":\#(quoted("'\(log)'")),"at":"now"\#(time)}"#)
            }
            return "{\(members.joined(separator: ","))}"
        }
    }

    enum Account {
        /// Removes the node if one of these wildcards is the id.
        case key([String])
        /// Replaces a child that holds the id; nil removes it.
        case child(String, String?)
        /// Removes the node if a child holds the id.
        case by(String)
    }

    /// The rules of one kind of node.
    struct Kind {
        let pattern: [String]
        var removes: [Removal] = []
        var copies: [Copy] = []
        var counters: [Counter] = []
        var defaults: [(name: String, value: Default)] = []
        var drops: [(name: String, test: Test)] = []
        var ends: [End] = []
        var inboxes: [Inbox] = []
        var accounts: [Account] = []

        var readsWritten: Bool { ends.contains { $0.written != nil } }

        init(_ pattern: String) { self.pattern = pattern.split(separator: "/").map(String.init) }

        /// The rules at this place, as JSON.
        fileprivate var json: String {
            var members: [String] = []
            func add(_ name: String, _ list: [String]) {
                if !list.isEmpty { members.append("\"\(name)\":[\(list.joined(separator: ","))]") }
            }
            add(".removes", removes.map(\.json))
            add(".copy", copies.map { copy in
                var parts = ["\"to\":\(quoted(copy.to))"]
                if let each = copy.each { parts.append("\"each\":\(quoted(each))") }
                if let test = copy.test.text("each") { parts.append("\"if\":\(quoted(test))") }
                return "{\(parts.joined(separator: ","))}"
            })
            let counted = counters.map { "\(quoted($0.name)):\($0.json)" }
            if !counted.isEmpty { members.append("\".counts\":{\(counted.joined(separator: ","))}") }
            add(".expire", ends.map(\.json))
            add(".inbox", inboxes.map(\.json))
            var children: [String: [String]] = [:]
            for (name, value) in defaults { children[name, default: []].append("\".default\":\(value.json)") }
            for (name, test) in drops { children[name, default: []].append("\".drop\":" + (test.text("newData").map(quoted) ?? "true")) }
            for account in accounts {
                switch account {
                case .key(let names): add(".account", names.map(quoted))
                case .child(let name, let text):
                    children[name, default: []].append("\".account\":{\"set\":\(text.map(quoted) ?? "null")}")
                case .by(let name): members.append("\".account\":{\"by\":\(quoted(name))}")
                }
            }
            for (name, keys) in children.sorted(by: { $0.key < $1.key }) {
                members.append("\(quoted(name)):{\(keys.joined(separator: ","))}")
            }
            return members.joined(separator: ",")
        }
    }

    /// All kinds, in a fixed order.
    var kinds: [Kind]

    var text: String {
        let places = kinds.map { kind in
            kind.pattern.reversed().reduce(kind.json) { inner, key in "\(quoted(key)):{\(inner)}" }
        }
        return "{\"rules\":{\".read\":true,\".write\":true,\(places.joined(separator: ","))}}"
    }

    /// - Parameters:
    ///   - followsChanges: whether `.removes` apply to changes. Then a commit may create a node and remove it: its rows stay.
    ///   - isCrowded: whether removals may follow in later commits, which leave what the same commit writes.
    init(_ random: inout SeededRandom, followsChanges: Bool, isCrowded: Bool) {
        func picked<T>(_ percent: Int, _ choices: [T]) -> [T] { choices.filter { _ in random.chance(percent) } }
        var (posts, comments, votes) = (Kind("posts/$p"), Kind("comments/$p/$c"), Kind("votes/$p/$u"))
        var (users, threads, friends) = (Kind("users/$u"), Kind("threads/$t"), Kind("friends/$u/$f"))
        var (rows, tallies) = (Kind("inbox/$s/$p"), Kind("tally/$u"))

        posts.removes = picked(60, [
            Removal(to: "comments/$p"), Removal(to: "votes/$p", test: random.chance(30) ? .child("tag", "x") : .always),
            Removal(to: random.chance(50) ? "marks/*/$p" : "marks/{user}/$p"), Removal(to: "list/*/+"),
        ])
        if followsChanges { posts.removes += picked(30, [
            Removal(to: "comments/$p", isOnChange: true, test: .child("state", "closed")),
            Removal(to: "marks/*/$p", isOnChange: true, test: .child("tag", "y")), Removal(to: "votes/$p/u0", isOnChange: true),
        ]).filter { !isCrowded || $0.to != "votes/$p/u0" } }
        posts.copies = picked(60, [
            random.chance(50) ? Copy(to: "by/{user}/$p") : Copy(to: random.chance(50) ? "all/$p" : "every/+post"),
            Copy(to: "line/$f/$p", each: "friends/{user}/$f", test: random.chance(70) ? .isText("added") : .always),
        ])
        posts.counters = picked(55, [
            Counter(name: "n", set: "comments/$p"), Counter(name: "up", set: "votes/$p", test: .isAbove(Int64(random.below(2)))),
            Counter(name: "sum", operation: "sum", set: "votes/$p"), Counter(name: "own", set: "comments/$p", test: .child("by", "u0")),
            Counter(name: "top", operation: "max", set: "votes/$p"), Counter(name: "talked", operation: "any", set: "comments/$p"),
            Counter(name: "low", operation: "min", set: "comments/$p", value: "number", test: .child("by", "u1")),
        ])
        posts.defaults = picked(50, [
            ("state", .value("open")), ("made", random.chance(50) ? .now : .value(["a": 1, "b": 2])), ("since", .firstTime),
            ("same", .sameAsNumber),
        ])
        posts.drops = picked(50, [("mail", .always), ("rank", .isAbove(5))])
        if posts.defaults.contains(where: { $0.name == "since" }) { posts.drops.append(("since", .always)) }
        if random.chance(70) { posts.accounts = [random.chance(50) ? .child("user", "gone") : .by("user")] }
        if random.chance(50) { comments.accounts = [.child("by", random.chance(50) ? "gone" : nil)] }
        if random.chance(50) { votes.accounts = [.key(["$u"])] }
        if random.chance(50) { comments.defaults = [("kind", .value("text"))] }

        users.counters = picked(60, [
            Counter(name: "posts", set: "posts", test: .child("user", "$u")), Counter(name: "friends", set: "friends/$u"),
            Counter(name: "rows", set: "inbox/$u"), Counter(name: "words", set: "comments/*", test: .child("by", "$u")),
            Counter(name: "numbers", operation: "sum", set: "posts", value: "number", test: .child("user", "$u")),
        ])
        tallies.counters = picked(60, [
            Counter(name: "rows", set: "inbox/$u", creates: true),
            Counter(name: "asked", operation: "any", set: "friends/$u", test: .isText("asked"), creates: true),
            Counter(name: "best", operation: "max", set: "comments/*", value: "number", test: .child("by", "$u"), creates: true),
        ])
        if random.chance(40) { tallies.copies = [Copy(to: "board/$u")] }
        users.removes = picked(60, ["friends/$u", "marks/$u", "inbox/$u", "subs/$u"]).map { Removal(to: $0) }
        if random.chance(60) { users.accounts = [.key(["$u"])] }
        friends.removes = picked(60, [Removal(to: "friends/$f/$u")])
        if random.chance(50) { friends.accounts = [.key(["$u", "$f"])] }
        threads.removes = picked(70, [Removal(to: "posts/$t")])
        if random.chance(50) { threads.ends = [End()] }

        // A log row records the expiry of a node, so another node's expiry at the same moment must not prevent it.
        let isAlone = threads.removes.isEmpty
        posts.ends = picked(50, [
            End(state: "open", patch: "late", log: isAlone ? "late" : nil), End(log: isAlone && random.chance(50) ? "end" : nil),
            End(written: Int64(400 + random.below(400)), isWithoutTime: true, log: isAlone ? "old" : nil),
        ])
        let staysWithPosts = posts.removes.contains { $0.to == "comments/$p" } && (!isAlone || !posts.ends.isEmpty)
        if random.chance(50) {
            comments.ends = [End(written: Int64(900 + random.below(500)), log: staysWithPosts ? nil : "comment")]
        }

        func inbox(_ to: String) -> Inbox {
            Inbox(
                to: to, wanted: random.pick([nil, [.value("tag")], [.keys("tags")], [.keys("tags"), .text("all")]] as [[Inbox.Names]?]),
                not: random.chance(50) ? .value("user") : nil, test: random.chance(40) ? .child("mode", "on") : .always,
                changes: random.pick([nil, "number", "state"]))
        }
        if random.chance(60) {
            posts.inboxes = [inbox("inbox/$s/$p")]
            if random.chance(30) { posts.inboxes.append(inbox("notes/{user}/$s/$p")) }
            if random.chance(40) { posts.inboxes.append(inbox("list/$s/+")) }
            if random.chance(30), !followsChanges {
                let wanted: [Inbox.Names]? = random.chance(50) ? [.text("all")] : nil
                comments.inboxes = [Inbox(to: "list/$s/+note", wanted: wanted, changes: random.pick([nil, "number"]))]
            }
            // Pending rows are cancelled with their node: how many a node that expires meanwhile has written is not determined.
            posts.ends.removeAll { $0.patch == nil }
            if !posts.ends.isEmpty { threads.removes = [] }
            if random.chance(40) { rows.ends = random.chance(50) ? [End()] : [End(written: Int64(500 + random.below(400)))] }
            if random.chance(40) { rows.accounts = [.key(["$s"])] }
        }
        kinds = [posts, comments, votes, users, threads, friends, rows, tallies]
    }
}

/// As a JSON string; these texts need no escaping.
private func quoted(_ text: String) -> String { "\"\(text)\"" }
