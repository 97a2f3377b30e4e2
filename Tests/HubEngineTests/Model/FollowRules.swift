import JSONTree
import SecurityRules
import TestSupport

/// A random rules file of the keys by which the hub writes itself, and the same as a model reads it.
struct FollowRules {
    /// A condition on a node: of `each`, or of what a client sends.
    enum Test {
        case always
        case isAbove(Int64)
        case isText(String)
        /// A child is a text, or the key of a wildcard.
        case child(String, String)

        /// Nil for no condition.
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

    struct Counter {
        let name: String
        let set: String
        var test = Test.always
        var isSum = false
    }

    enum Default {
        case value(Node), now
        /// The time of the first write, whatever is sent.
        case firstTime

        var json: String {
            switch self {
            case .value(.string(let text)): quoted("'\(text)'")
            case .value(let node): node.json
            case .now: quoted("now")
            case .firstTime: quoted("data.val(now)")
            }
        }
    }

    /// One entry of an `.expire`.
    struct End {
        /// nil: when the child `at` says.
        var written: Int64?
        /// Only where `state` is this.
        var state: String?
        /// Only where there is no `at`.
        var isWithoutTime = false
        /// `state` becomes this; else the node goes.
        var patch: String?
        /// A row in the log with this name.
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
        /// The node goes where one of these wildcards is the id.
        case key([String])
        /// A child that holds the id becomes this.
        case child(String, String)
    }

    /// The rules of one kind of node.
    struct Kind {
        let pattern: [String]
        var removes: [String] = []
        var copies: [Copy] = []
        var counters: [Counter] = []
        var defaults: [(name: String, value: Default)] = []
        var drops: [(name: String, test: Test)] = []
        var ends: [End] = []
        var accounts: [Account] = []

        var asksWhenWritten: Bool { ends.contains { $0.written != nil } }

        init(_ pattern: String) { self.pattern = pattern.split(separator: "/").map(String.init) }

        /// What stands at the place in the rules.
        fileprivate var json: String {
            var members: [String] = []
            func add(_ name: String, _ list: [String]) {
                if !list.isEmpty { members.append("\"\(name)\":[\(list.joined(separator: ","))]") }
            }
            add(".removes", removes.map(quoted))
            add(".copy", copies.map { copy in
                var parts = ["\"to\":\(quoted(copy.to))"]
                if let each = copy.each { parts.append("\"each\":\(quoted(each))") }
                if let test = copy.test.text("each") { parts.append("\"if\":\(quoted(test))") }
                return "{\(parts.joined(separator: ","))}"
            })
            let counted = counters.map { counter in
                let inner = counter.set + (counter.test.text("each").map { ", \($0)" } ?? "")
                return "\(quoted(counter.name)):" + quoted("\(counter.isSum ? "sum" : "count")(\(inner))")
            }
            if !counted.isEmpty { members.append("\".counts\":{\(counted.joined(separator: ","))}") }
            add(".expire", ends.map(\.json))
            var children: [String: [String]] = [:]
            for (name, value) in defaults { children[name, default: []].append("\".default\":\(value.json)") }
            for (name, test) in drops { children[name, default: []].append("\".drop\":" + (test.text("newData").map(quoted) ?? "true")) }
            for account in accounts {
                switch account {
                case .key(let names): add(".account", names.map(quoted))
                case .child(let name, let text): children[name, default: []].append("\".account\":{\"set\":\(quoted(text))}")
                }
            }
            for (name, keys) in children.sorted(by: { $0.key < $1.key }) {
                members.append("\(quoted(name)):{\(keys.joined(separator: ","))}")
            }
            return members.joined(separator: ",")
        }
    }

    /// By name, in a fixed order.
    var kinds: [Kind]

    var text: String {
        let places = kinds.map { kind in
            kind.pattern.reversed().reduce(kind.json) { inner, key in "\(quoted(key)):{\(inner)}" }
        }
        return "{\"rules\":{\".read\":true,\".write\":true,\(places.joined(separator: ","))}}"
    }

    init(_ random: inout SeededRandom) {
        func picked<T>(_ percent: Int, _ choices: [T]) -> [T] { choices.filter { _ in random.chance(percent) } }
        var (posts, comments, votes) = (Kind("posts/$p"), Kind("comments/$p/$c"), Kind("votes/$p/$u"))
        var (users, threads, friends) = (Kind("users/$u"), Kind("threads/$t"), Kind("friends/$u/$f"))

        posts.removes = picked(60, ["comments/$p", "votes/$p", random.chance(50) ? "marks/*/$p" : "marks/{user}/$p"])
        posts.copies = picked(60, [
            random.chance(50) ? Copy(to: "by/{user}/$p") : Copy(to: "all/$p"),
            Copy(to: "line/$f/$p", each: "friends/{user}/$f", test: random.chance(70) ? .isText("added") : .always),
        ])
        posts.counters = picked(55, [
            Counter(name: "n", set: "comments/$p"), Counter(name: "up", set: "votes/$p", test: .isAbove(Int64(random.below(2)))),
            Counter(name: "sum", set: "votes/$p", isSum: true), Counter(name: "own", set: "comments/$p", test: .child("by", "u0")),
        ])
        posts.defaults = picked(50, [
            ("state", .value("open")), ("made", random.chance(50) ? .now : .value(["a": 1, "b": 2])), ("since", .firstTime),
        ])
        posts.drops = picked(50, [("mail", .always), ("rank", .isAbove(5))])
        if posts.defaults.contains(where: { $0.name == "since" }) { posts.drops.append(("since", .always)) }
        if random.chance(50) { posts.accounts = [.child("user", "gone")] }
        if random.chance(50) { comments.accounts = [.child("by", "gone")] }
        if random.chance(50) { votes.accounts = [.key(["$u"])] }
        if random.chance(50) { comments.defaults = [("kind", .value("text"))] }

        users.counters = picked(60, [
            Counter(name: "posts", set: "posts", test: .child("user", "$u")), Counter(name: "friends", set: "friends/$u"),
        ])
        users.removes = picked(60, ["friends/$u", "marks/$u"])
        if random.chance(60) { users.accounts = [.key(["$u"])] }
        friends.removes = picked(60, ["friends/$f/$u"])
        if random.chance(50) { friends.accounts = [.key(["$u", "$f"])] }
        threads.removes = picked(70, ["posts/$t"])
        if random.chance(50) { threads.ends = [End()] }

        // A row tells that a node ended, which another's end must not keep from happening at the same moment.
        let isAlone = threads.removes.isEmpty
        posts.ends = picked(50, [
            End(state: "open", patch: "late", log: isAlone ? "late" : nil), End(log: isAlone && random.chance(50) ? "end" : nil),
            End(written: Int64(400 + random.below(400)), isWithoutTime: true, log: isAlone ? "old" : nil),
        ])
        let staysWithPosts = posts.removes.contains("comments/$p") && (!isAlone || !posts.ends.isEmpty)
        if random.chance(50) {
            comments.ends = [End(written: Int64(900 + random.below(500)), log: staysWithPosts ? nil : "comment")]
        }
        kinds = [posts, comments, votes, users, threads, friends]
    }
}

/// As a JSON text: what stands in rules here has nothing to escape.
private func quoted(_ text: String) -> String { "\"\(text)\"" }
