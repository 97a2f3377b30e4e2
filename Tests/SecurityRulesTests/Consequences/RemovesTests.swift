import JSONTree
import SecurityRules
import Testing
import TestSupport

/// `.removes`: data that is removed with a node.
@Suite(.timeLimit(.minutes(30))) struct RemovesTests {
    private static let rules = #"""
        {"rules":{
          "posts":{"$p":{".removes":["comments/$p","timeline/*/$p","by/{author/uid}/$p"]}},
          "friends":{"$a":{"$b":{".removes":["friends/$b/$a","follow/$a/$b","follow/$b/$a"]}}},
          "chain":{"$n":{".removes":"chain/{next}"}},
          "box":{".removes":["lid","tape/$t/x"],"a":{".removes":"marks/a"}},
          "up":{"x":{".removes":"up"}},
          "comments":{"$p":{"$c":{".removes":"likes/$c"}}}}}
        """#

    struct Row: Sendable, CustomTestStringConvertible {
        let old: String
        let writes: KeyValuePairs<String, String>
        let removed: [String]
        init(_ old: String, _ writes: KeyValuePairs<String, String>, _ removed: String...) {
            (self.old, self.writes, self.removed) = (old, writes, removed)
        }
        var testDescription: String { "\(old) \(writes)" }
    }

    private static let post = #"{"posts":{"p":{"author":{"uid":"u"}},"q":{"t":1}},"comments":{"p":{"c":1,"d":2}},"likes":{"c":5,"e":6},"#
        + #""timeline":{"x":{"p":1,"q":2},"y":{"q":1},"z":{"p":3}},"by":{"u":{"p":1},"v":{"p":2}}}"#

    private static let conditional = #"""
        {"rules":{
          "tasks":{"$t":{".removes":[{"to":["reminders/{owner}/$t","pins/*/$t"],"on":"change",
              "if":"newData.child('done').val() == true && data.child('done').val() != true"},
            {"to":"shares/$t","if":"data.child('kind').val() == 'private'"}]}},
          "orders":{"$o":{".removes":{"to":"drafts/$o","on":"change"}}},
          "all":{".removes":{"to":"mark","on":"change"},"$x":{".removes":{"to":"marks/$x","on":"change","if":"newData.val() > 5"}}},
          "list":{"$u":{"$n":{}}},"likes":{"$p":{"$u":{".removes":"list/*/+like"}}},
          "self":{"$s":{".removes":{"to":"self/$s","on":"change","if":"newData.child('a').exists() && newData.child('b').exists()"}}}}}
        """#
    private static let task = #"{"tasks":{"t":{"owner":"a","kind":"private"},"s":{"owner":"a"}},"reminders":{"a":{"t":1,"s":1},"b":{"t":1}},"#
        + #""pins":{"x":{"t":1},"y":{"t":1,"s":1}},"shares":{"t":1,"s":1},"drafts":{"o":1},"mark":1,"marks":{"m":1,"n":1}}"#

    @Test(arguments: [
        // a field changes, changes to another value, stays as it is
        Row(task, ["tasks/t/done": "true"], "/reminders/a/t", "/pins/x/t", "/pins/y/t"), Row(task, ["tasks/t/done": "false"]),
        Row(#"{"tasks":{"t":{"owner":"a","done":true}},"reminders":{"a":{"t":1}}}"#, ["tasks/t/title": "1"]),
        // a place above the node is written; the place is named by the former value
        Row(task, ["tasks/t": #"{"owner":"b","done":true}"#], "/reminders/a/t", "/pins/x/t", "/pins/y/t"),
        Row(task, ["tasks": #"{"t":{"owner":"a","done":true}}"#], "/reminders/a/t", "/pins/x/t", "/pins/y/t"),
        // a removal has its own condition
        Row(task, ["tasks/t": "null"], "/shares/t"), Row(task, ["tasks/s": "null"]), Row(task, ["tasks": "null"], "/shares/t"),
        // a new node, named by its own values; many at once
        Row(task, ["orders/o": "1"], "/drafts/o"), Row(task, ["orders": #"{"o":{"x":1},"p":1}"#], "/drafts/o"), Row(task, ["orders/x": "1"]),
        Row(#"{"reminders":{"a":{"n":1}}}"#, ["tasks/n": #"{"owner":"a","done":true}"#], "/reminders/a/n"),
        // a node above what is written, and its children
        Row(task, ["all/m": "6"], "/mark", "/marks/m"), Row(task, ["all/m": "5"], "/mark"), Row(task, ["all": #"{"m":7,"n":8,"o":"x"}"#], "/mark", "/marks/m", "/marks/n"),
        // by itself
        Row(#"{"self":{"s":{"a":1}}}"#, ["self/s/b": "1"], "/self/s"), Row(#"{"self":{"s":{"a":1}}}"#, ["self/s/c": "1"]),
    ]) func change_hasItsTargetsRemoved(_ row: Row) throws {
        let rules = try RuleSet(parsing: Self.conditional)
        let old = try Node(json: row.old)
        let writes = try row.writes.map { (path: try Path(parsing: $0.key), value: try Node(json: $0.value)) }
        let found = try rules.consequences(of: writes.map(\.path), old: old, new: writes.after(old))
        #expect(found.writes.map(\.path.description).sorted() == row.removed.sorted())
    }

    /// A generated key is that of the same node's rows.
    @Test func generatedKey_isTheSameForRowsAndTheirRemoval() throws {
        let rules = try RuleSet(parsing: #"""
            {"rules":{"likes":{"$p":{"$u":{".inbox":{"to":"list/$r/+like","each":"fans/$r","value":{"of":"$p"}},".removes":"list/*/+like",
              ".copy":"all/+"}}}}}
            """#)
        var tree: Node = ["fans": ["x": 1, "y": 1]]
        func write(_ path: Path, _ value: Node) throws -> Consequences {
            var new = tree
            new.set(value, at: path)
            let found = try rules.consequences(of: [path], old: tree, new: new)
            tree = found.tree
            return found
        }
        _ = try write("likes/p/u", 1)
        let keys = tree.node(at: "list/x").children.map(\.0)
        #expect(keys.count == 1 && keys[0].string.utf8.count == 20 && tree.node(at: "list/y").children.map(\.0) == keys)
        let copies = tree.child("all").children.map(\.0)
        #expect(copies.count == 1 && copies != keys, "a name makes another key")
        _ = try write("likes/p/v", 1)
        #expect(tree.node(at: "list/x").childCount == 2 && tree.child("all").childCount == 2)
        _ = try write("likes/p/u", 2)
        #expect(tree.node(at: "all").child(copies[0]) == 2, "the copy follows its node")
        _ = try write("likes/p/u", .null)
        #expect(tree.node(at: "list/x").childCount == 1 && tree.node(at: "list/x").child(keys[0]).isNull && tree.child("all").childCount == 1)
    }

    @Test(arguments: [
        (#"{"to":"x","on":"write"}"#, "1:43: 'on' is \"removal\" or \"change\"."),
        (#"{"to":"x","when":"true"}"#, "1:38: A '.removes' has no 'when'."),
        (#"{"if":"true"}"#, form), (#"{"to":5}"#, "1:34: A 'to' is a place such as \"comments/$post\", or a list of them."),
        (#"{"to":"x","if":"5"}"#, "1:44: Expression must evaluate to a boolean."), (#"{"to":"x/+a-b"}"#, "1:37: A generated key is '+', or '+' with a name such as '+likes'."),
        ("5", form), ("[]", form), ("{}", form),
    ]) func formOfARemoval_isRefused(_ value: String, _ message: String) {
        #expect(faults(#"{"rules":{"$a":{".removes":\#(value)}}}"#).map(\.description) == [message])
    }

    private static let form = "1:28: \(removal)"
    private static let removal = "A '.removes' is a place such as \"comments/$post\", {\"to\": …, \"if\": …, \"on\": \"removal\" or \"change\"}, "
        + "or a list of these."

    @Test(arguments: [
        // the node itself, a place above it, or one of several writes
        Row(post, ["posts/p": "null"], "/comments/p", "/timeline/x/p", "/timeline/z/p", "/by/u/p", "/likes/c"),
        Row(
            post, ["posts": "null"],
            "/comments/p", "/timeline/x/p", "/timeline/z/p", "/timeline/x/q", "/timeline/y/q", "/by/u/p", "/likes/c"),
        Row(post, ["posts": #"{"q":{"t":1}}"#], "/comments/p", "/timeline/x/p", "/timeline/z/p", "/by/u/p", "/likes/c"),
        // the last child of the node
        Row(post, ["posts/p/author/uid": "null"], "/comments/p", "/timeline/x/p", "/timeline/z/p", "/by/u/p", "/likes/c"),
        Row(post, ["posts/q/t": "null"], "/timeline/x/q", "/timeline/y/q"),
        // a change removes nothing, nor does removing a missing node
        Row(post, ["posts/p": "5"]), Row(post, ["posts/p/author": "null", "posts/p/t": "1"]), Row(post, ["posts/none": "null"]),
        // places that the client removes itself are not removed again
        Row(post, ["posts/p": "null", "comments": "null", "timeline/x/p": "null"], "/timeline/z/p", "/by/u/p", "/likes/c"),
        // in both directions, which terminates
        Row(#"{"friends":{"a":{"b":1},"b":{"a":1}},"follow":{"a":{"b":1},"b":{"a":1,"c":1}}}"#, ["friends/a/b": "null"],
            "/friends/b/a", "/follow/a/b", "/follow/b/a"),
        Row(#"{"friends":{"a":{"b":1},"b":{"c":1}},"follow":{"b":{"a":1}}}"#, ["friends/a": "null"], "/follow/b/a"),
        // one after the other, and in a circle
        Row(#"{"chain":{"1":{"next":"2"},"2":{"next":3},"3":{"next":"4"},"5":{"next":"1"}}}"#, ["chain/1": "null"], "/chain/2", "/chain/3"),
        Row(#"{"chain":{"1":{"next":"2"},"2":{"next":"1"}}}"#, ["chain/1/next": "null"], "/chain/2"),
        // a missing key; a new wildcard that matches many; nested; a place above itself
        Row(#"{"posts":{"p":{"author":{"x":1}}},"by":{"u":{"p":1}}}"#, ["posts/p": "null"]),
        Row(#"{"box":{"a":1,"b":2},"lid":1,"tape":{"r":{"x":1,"y":2},"s":{"x":1}},"marks":{"a":1}}"#, ["box/a": "null"], "/marks/a"),
        Row(#"{"box":{"a":1},"lid":1,"tape":{"r":{"x":1,"y":2},"s":{"x":1}},"marks":{"a":1}}"#, ["box": "null"],
            "/lid", "/tape/r/x", "/tape/s/x", "/marks/a"),
        Row(#"{"up":{"x":1,"y":2}}"#, ["up/x": "null"], "/up"), Row(#"{"box":{"a":1}}"#, ["/": "null"]),
    ]) func removal_hasItsTargetsRemoved(_ row: Row) throws {
        let rules = try RuleSet(parsing: Self.rules)
        let old = try Node(json: row.old)
        let writes = try row.writes.map { (path: try Path(parsing: $0.key), value: try Node(json: $0.value)) }
        let new = writes.after(old)
        let found = try rules.consequences(of: writes.map(\.path), old: old, new: new)
        #expect(Set(found.writes.map(\.path.description)) == Set(row.removed) && found.writes.count == row.removed.count)
        #expect(found.writes.allSatisfy { $0.value.isNull })
        var tree = new
        for write in found.writes { tree.set(.null, at: write.path) }
        #expect(tree == found.tree)
    }

    @Test(arguments: [
        (#"{".removes":"a"}"#, "1:11: A '.removes' stands below the root."),
        (#"{"a":{".removes":5}}"#, "1:27: \(removal)"),
        (#"{"a":{".removes":[]}}"#, "1:27: \(removal)"),
        (#"{"a":{".removes":["x",5]}}"#, "1:32: \(removal)"),
        (#"{"a":{".removes":""}}"#, "1:28: Expected a place such as \"comments/$post\"."),
        (#"{"a":{".removes":"/x"}}"#, "1:28: A segment of the place is empty. It is written without the first /."),
        (#"{"a":{".removes":"x//y"}}"#, "1:30: A segment of the place is empty."),
        (#"{"a":{".removes":"x/y.z"}}"#, "1:30: 'y.z' cannot be a key of data."),
        (#"{"a":{".removes":"x/{}"}}"#, "1:30: '{}' is no child of the node: such as {author/uid}."),
        (#"{"a":{".removes":"x/{b"}}"#, "1:32: Expected '}'."),
        (#"{"a":{".removes":"x/$f/$f"}}"#, "1:33: '$f' ranges over keys, and can do so once."),
    ]) func slip_isRefused(_ rules: String, _ message: String) {
        #expect(faults("{\"rules\":\(rules)}").map(\.description) == [message])
    }

    /// A stored value can neither direct a removal elsewhere nor prevent the removal of its node.
    @Test(arguments: [#""a/b""#, #""a.b""#, "1.5", "true", #"{"x":1}"#]) func valueThatIsNoKey_namesNoPlace(_ value: String) throws {
        let rules = try RuleSet(parsing: Self.rules)
        var old: Node = ["chain": ["1": ["5": 1], "a": ["b": 1], "true": 1, "x": 1]]
        old.set(["next": try Node(json: value)], at: "chain/0")
        var new = old
        new.set(.null, at: "chain/0")
        let found = try rules.consequences(of: ["/chain/0"], old: old, new: new)
        #expect(found.writes.isEmpty && found.tree == new)
    }

    @Test func writes_andKeys_areBounded() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"a":{".removes":"b/*/x"}}}"#)
        let old: Node = ["a": 1, "b": .object((0..<10).map { (Key("\($0)"), ["x": 1]) })]
        let new: Node = ["b": old.child("b")]
        var limits = ConsequenceLimits()
        (limits.writes, limits.keys) = (10, 10)
        let found = try rules.consequences(of: ["/a"], old: old, new: new, limits: limits)
        #expect(found.writes.count == 10 && found.keysScanned == 10 && found.tree.isNull)
        // Removals beyond the limit are left to later commits, unless too many are pending already.
        for (writes, keys) in [(9, 10), (10, 9)] {
            (limits.writes, limits.keys, limits.continuations) = (writes, keys, 1)
            let found = try rules.consequences(of: ["/a"], old: old, new: new, limits: limits)
            #expect(found.writes.isEmpty && found.tree == new && found.continuedRemovals?.places == ["/a"])
            let removals = try #require(found.continuedRemovals.flatMap { ContinuedRemovals($0.terms) })
            #expect(removals == found.continuedRemovals)
            #expect(rules.removed(by: removals, in: old) == (0..<10).map { Path([Key("b"), Key("\($0)"), Key("x")]) })
            limits.continuations = 0
            #expect(throws: ConsequenceFault.self) { try rules.consequences(of: ["/a"], old: old, new: new, limits: limits) }
        }
    }

    /// A write that removes nothing costs nothing, whatever else exists.
    @Test func keysLookedAt_areThoseOfWhatIsWritten() throws {
        let rules = try RuleSet(parsing: Self.rules)
        let posts = Node.object((0..<1000).map { (Key("p\($0)"), ["t": 1]) })
        var new: Node = ["posts": posts]
        new.set(5, at: "posts/p7/x")
        #expect(try rules.consequences(of: ["/posts/p7/x"], old: ["posts": posts], new: new).keysScanned == 0)
        new.set(.null, at: "posts/p7")
        #expect(try rules.consequences(of: ["/posts/p7"], old: ["posts": posts], new: new).keysScanned == 0)
    }

    /// `.validate` is evaluated for the hub's writes, with the hub as the author.
    @Test func validate_isAskedAsTheHub() throws {
        func admits(_ validate: String) throws -> Bool {
            let rules = try RuleSet(parsing: #"{"rules":{"a":{".removes":"b/x"},"b":{".write":false,".validate":"\#(validate)"}}}"#)
            let old: Node = ["a": 1, "b": ["x": 1, "y": 2]]
            let found = try rules.consequences(of: ["/a"], old: old, new: ["b": old.child("b")])
            var work = RulesLimits.textWork
            return rules.admits(found, old: old, now: 0, textWork: &work)
        }
        #expect(try admits("newData.hasChild('y')") && !(try admits("newData.hasChild('x')")))
        #expect(try admits("auth.provider == 'hub' && auth.uid == null") && !(try admits("auth == null")))
    }

    // MARK: Model

    /// Compared with a model that scans all places for each rule until nothing changes.
    @Test(arguments: Array(1...80) as [UInt64]) func randomRemovals_areThoseOfTheModel(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let names = ["a", "b", "c"]
        var rules: [(pattern: [String], target: [String])] = []
        for _ in 0...random.below(5) {
            let depth = 1 + random.below(3)
            let pattern = (0..<depth).map { random.chance(50) ? "$\($0)" : random.pick(names) }
            if rules.contains(where: { $0.pattern == pattern }) { continue }
            let target = (0...random.below(3)).map { _ in
                switch random.below(5) {
                case 0: "*"
                case 1: pattern.filter { $0.hasPrefix("$") }.randomElement(using: &random) ?? "a"
                case 2: "{v}"
                default: random.pick(names)
                }
            }
            rules.append((pattern, target))
        }
        let set = try RuleSet(parsing: Self.file(rules))
        var old = Node.null
        for step in 0..<80 {
            var writes: [(path: Path, value: Node)] = []
            for _ in 0...random.below(2) {
                let path = Path((0..<(1 + random.below(3))).map { _ in Key(random.pick(names)) })
                if writes.contains(where: { $0.path.contains(path) || path.contains($0.path) }) { continue }
                writes.append((path, random.chance(40) ? .null : Self.value(&random, 3)))
            }
            let new = writes.after(old)
            let found = try set.consequences(of: writes.map(\.path), old: old, new: new)
            let expected = Self.model(rules, old, new)
            guard found.tree == expected else {
                Issue.record("step \(step): \(Self.file(rules))\n\(old.json)\n\(new.json)\n\(found.tree.json)\n\(expected.json)")
                return
            }
            old = random.chance(20) ? Self.value(&random, 4) : found.tree
        }
    }

    private static func value(_ random: inout SeededRandom, _ depth: Int) -> Node {
        if depth == 0 || random.chance(20) { return .string(random.pick(["a", "b", "c"])) }
        var node: Node = ["v": .string(random.pick(["a", "b", "c"]))]
        for key in ["a", "b", "c"] where random.chance(50) { node.set(value(&random, depth - 1), at: Path([Key(key)])) }
        return node
    }

    /// The rule node of a place: a literal name hides a wildcard at the same level.
    private static func pattern(_ place: Path, _ rules: [(pattern: [String], target: [String])]) -> [String]? {
        place.keys.enumerated().reduce(Optional([])) { prefix, next in
            [next.element.string, "$\(next.offset)"].compactMap { name in prefix.map { $0 + [name] } }
                .first { candidate in rules.contains { $0.pattern.starts(with: candidate) } }
        }
    }

    private static func file(_ rules: [(pattern: [String], target: [String])]) -> String {
        func node(_ prefix: [String]) -> String {
            let below = rules.filter { $0.pattern.starts(with: prefix) }
            var members = below.filter { $0.pattern.count == prefix.count }.map { "\".removes\":\"\($0.target.joined(separator: "/"))\"" }
            for name in Set(below.filter { $0.pattern.count > prefix.count }.map { $0.pattern[prefix.count] }).sorted() {
                members.append("\"\(name)\":\(node(prefix + [name]))")
            }
            return "{\(members.joined(separator: ","))}"
        }
        return "{\"rules\":\(node([]))}"
    }

    private static func model(_ rules: [(pattern: [String], target: [String])], _ old: Node, _ new: Node) -> Node {
        var (before, after) = (old, new)
        while true {
            var next = after
            for place in places(before) where after.node(at: place).isNull {
                for rule in rules where rule.pattern == pattern(place, rules) {
                    let keys = place.keys.map(\.string)
                    let bound = Dictionary(uniqueKeysWithValues: zip(rule.pattern, keys).filter { $0.0.hasPrefix("$") })
                    for target in places(next) where target.depth == rule.target.count {
                        let isTarget = zip(rule.target, target.keys).allSatisfy { segment, key in
                            switch segment {
                            case "*": true
                            case "{v}": before.node(at: place).child("v") == .string(key.string)
                            default: (bound[segment] ?? segment) == key.string
                            }
                        }
                        if isTarget { next.set(.null, at: target) }
                    }
                }
            }
            if next == after { return after }
            (before, after) = (after, next)
        }
    }

    private static func places(_ tree: Node, at path: Path = .root) -> [Path] {
        tree.hasChildren ? tree.children.flatMap { key, child in [path.appending(key)] + places(child, at: path.appending(key)) } : []
    }
}
