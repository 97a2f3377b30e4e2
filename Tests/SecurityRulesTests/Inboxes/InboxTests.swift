import JSONTree
import Testing
import TestSupport

@testable import SecurityRules

/// `.inbox`: a row for each subscriber that a new node matches.
@Suite(.timeLimit(.minutes(30))) struct InboxTests {
    private static let rules = #"""
        {"functions":{"isIn(set)":"set.child('t1').val() != 'no'"},"rules":{
          "news":{"$k":{".counts":{"likes":"count(likes/$k)"},".inbox":{
            "to":"inbox/$u/$k","each":"subs/$u","any":["newData.child('tags')","'t0'"],"not":["newData.child('by').val()","'root'"],
            "if":"isIn(each) && $u != 'zed'","changes":"newData.child('again').val() == true && data.child('again').val() != true",
            "value":{"at":"now","n":1,"list":["$k","newData.child('t').val()"],"empty":null}}}},
          "rooms":{"$r":{"m":{"$m":{".inbox":[
            {"to":"seen/{in}/$u/$r/$m","each":"members/{in}/$u/set","any":"newData.child('role')","value":"'seen'"},
            {"to":"all/$r/$m/$w","each":"people/$w","not":"newData.child('hide')","value":"newData.child('x').val()"}]}}}}}}
        """#

    private static let subs = #""subs":{"a":{"t1":1},"b":{"t2":true,"t0":true},"c":{"t3":true},"d":{"t0":true,"t1":"no"},"#
        + #""root":{"t0":1},"zed":{"t0":1},"e":5}"#
    private static func row(_ k: String, _ t: String? = nil) -> String {
        let list = t.map { #"{"0":"\#(k)","1":\#($0)}"# } ?? #"{"0":"\#(k)"}"#
        return #"{"at":7,"n":1,"list":\#(list)}"#
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let old: String
        let writes: KeyValuePairs<String, String>
        /// The place whose content is compared: all rows, or another place.
        let place: String
        let then: String
        init(_ old: String, _ writes: KeyValuePairs<String, String>, _ place: String, _ then: String) {
            (self.old, self.writes, self.place, self.then) = (old, writes, place, then)
        }
        init(_ old: String, _ writes: KeyValuePairs<String, String>, _ then: String) { self.init(old, writes, "inbox", then) }
        var testDescription: String { "\(old) \(writes)" }
    }

    private static let old = #"{\#(subs),"news":{"n":{"t":1,"tags":{"t1":true},"likes":0}}}"#

    @Test(arguments: [
        // subscribers with any of the keys (one value, or those of a set) that are not excluded
        Row("{\(subs)}", ["news/n": #"{"tags":{"t1":true,"t2":true},"t":1}"#],
            #"{"a":{"n":\#(row("n", "1"))},"b":{"n":\#(row("n", "1"))}}"#),
        Row("{\(subs)}", ["news/n": #"{"tags":{"t3":true}}"#], #"{"b":{"n":\#(row("n"))},"c":{"n":\#(row("n"))}}"#),
        Row("{\(subs)}", ["news/n": #"{"t":1}"#], #"{"b":{"n":\#(row("n", "1"))}}"#),
        Row("{\(subs)}", ["news/n": #"{"t":1,"by":"b"}"#], "null"),
        Row("{\(subs)}", ["news/n/tags/t1": "1"], #"{"a":{"n":\#(row("n"))},"b":{"n":\#(row("n"))}}"#),
        Row("{\(subs)}", ["news": #"{"n":{"t":1},"o":5}"#], #"{"b":{"n":\#(row("n", "1")),"o":\#(row("o"))}}"#),
        Row("null", ["news/n": #"{"tags":{"t1":1}}"#], "null"),
        // subscriptions as they are after the write
        Row("{\(subs)}", ["news/n": #"{"t":1}"#, "subs/new/t0": "1", "subs/b": "null"], #"{"new":{"n":\#(row("n", "1"))}}"#),
        Row(#"{"subs":{"a":{"t1":"no","t0":1}}}"#, ["news/n": "1"], "null"),
        // an existing row is replaced, an equal one stays
        Row(#"{\#(subs),"inbox":{"b":{"n":5}}}"#, ["news/n": #"{"t":1}"#], #"{"b":{"n":\#(row("n", "1"))}}"#),
        // a change writes no rows, except for fields in 'changes'; a removal removes none
        Row(old, ["news/n/t": "2"], "null"), Row(old, ["likes/n/x": "1"], "null"),
        Row(old, ["news/n": #"{"t":3,"tags":{"t3":1},"likes":0}"#], "null"),
        Row(old, ["news/n/again": "true"], #"{"a":{"n":\#(row("n", "1"))},"b":{"n":\#(row("n", "1"))}}"#),
        Row(old, ["news/n/again": "true", "likes/n/x": "1"], #"{"a":{"n":\#(row("n", "1"))},"b":{"n":\#(row("n", "1"))}}"#),
        Row(#"{\#(subs),"news":{"n":{"again":true}}}"#, ["news/n/t": "2"], "null"),
        Row(#"{"news":{"n":1},"inbox":{"b":{"n":5}}}"#, ["news/n": "null"], #"{"b":{"n":5}}"#),
        // two inboxes, places from values, a wildcard in the middle, every subscriber
        Row(#"{"members":{"x":{"a":{"set":{"boss":1}},"b":{"set":{"cook":1}},"c":{"boss":1}}}}"#,
            ["rooms/r/m/1": #"{"in":"x","role":"boss"}"#], "seen", #"{"x":{"a":{"r":{"1":"seen"}}}}"#),
        Row(#"{"members":{"x":{"a":{"set":{"boss":1}},"b":{"set":{"cook":1}}}}}"#,
            ["rooms/r/m/1": #"{"in":"x","role":{"cook":1,"maid":1}}"#], "seen", #"{"x":{"b":{"r":{"1":"seen"}}}}"#),
        Row(#"{"members":{"x":{"a":{"set":{"boss":1}}}}}"#, ["rooms/r/m/1": #"{"role":"boss"}"#], "seen", "null"),
        Row(#"{"people":{"a":1,"b":{"x":1},"c":true}}"#, ["rooms/r/m/1": #"{"x":9,"hide":{"b":1}}"#], "all", #"{"r":{"1":{"a":9,"c":9}}}"#),
    ]) func rows_followNewNodes(_ row: Row) throws {
        let rules = try RuleSet(parsing: Self.rules)
        let old = try Node(json: row.old)
        let writes = try row.writes.map { (path: try Path(parsing: $0.key), value: try Node(json: $0.value)) }
        let (paths, new) = (writes.map(\.path), writes.after(old))
        func followed(_ limits: ConsequenceLimits, _ index: CopyIndex?) throws -> Node {
            let found = try rules.consequences(of: paths, old: old, new: new, by: .administrator, now: 7, limits: limits, copies: index)
            var sent: [RuleDelivery] = []
            let tree = rules.continuing(found.continued.map(\.rows), nil, old: .null, in: found.tree, now: 7, sending: &sent)
            return tree.node(at: try Path(parsing: row.place))
        }
        let then = try Node(json: row.then)
        #expect(try followed(ConsequenceLimits(), nil) == then)
        #expect(try followed(ConsequenceLimits(), CopyIndex(rules, root: old)) == then, "with an index")
        var limits = ConsequenceLimits()
        limits.defersAll = true
        #expect(try followed(limits, nil) == then, "behind the commit")
    }

    private static let form = #"An '.inbox' is {"to": "inbox/$u/$k", "each": "followers/$u", "value": …}, with "any", "not", "#
        + #""if" and "changes" as needed."#

    @Test(arguments: [
        (#"{".inbox":{}}"#, "1:11: An '.inbox' stands below the root."), (#"{"a":{".inbox":5}}"#, "1:25: \(form)"),
        (#"{"a":{".inbox":[]}}"#, "1:25: \(form)"), (#"{"a":{".inbox":{"to":"x/$u","each":"y/$u"}}}"#, "1:25: \(form)"),
        (#"{"a":{".inbox":{"to":5}}}"#, "1:31: \(form)"),
        (#"{"a":{".inbox":{"to":"x/$u","each":"y/$u","value":1,"valu":1}}}"#, "1:62: An '.inbox' has no 'valu'."),
        (#"{"a":{".inbox":{"to":"x/$u","to":"x/$u","each":"y/$u","value":1}}}"#, "1:38: Duplicate key 'to'."),
        (#"{"a":{".inbox":{"to":"x/$u","each":"y/$u","value":1,"any":[5]}}}"#,
            "1:69: 'any' is an expression, or a list of them: what they yield are keys."),
        (#"{"a":{".inbox":{"to":"x/$u","each":"y/$u","value":1,"not":"true"}}}"#,
            "1:69: This yields keys: a value such as 't0', or a snapshot such as newData.child('tags')."),
        (#"{"a":{".inbox":{"to":"x/u","each":"y/u","value":1}}}"#,
            "1:45: 'each' has one wildcard of its own, such as $u: it ranges over those who get a row."),
        (#"{"a":{".inbox":{"to":"x/$u/$v","each":"y/$u/$v","value":1}}}"#,
            "1:49: 'each' has one wildcard of its own, such as $u: it ranges over those who get a row."),
        (#"{"a":{".inbox":{"to":"x/u","each":"y/$u","value":1}}}"#, "1:32: The place of a row has the wildcard of 'each', $u."),
        (#"{"a":{"$k":{".inbox":{"to":"x/$u","each":"y/$u","value":1}}}}"#,
            "1:38: The place of a row has the key of its node, $k, or a generated one, +: else two nodes would share a row."),
        (#"{"a":{"$e":{"$k":{".inbox":{"to":"x/$u/$k","each":"y/$u","value":1}}}}}"#,
            "1:44: The place of a row has every wildcard of its node's, also $e: else two nodes share a row."),
        (#"{"a":{"$e":{"m":{".inbox":{"to":"x/$u","each":"y/$u","value":1}}}}}"#,
            "1:43: The place of a row has every wildcard of its node's, also $e: else two nodes share a row."),
        (#"{"a":{"$k":{".inbox":[{"to":"x/$u/$k","each":"y/$u","value":1},{"to":"x/$w/$k","each":"z/$w","value":2}]}}}"#,
            "1:79: A row can be at the place of one of the inbox at 1:38, and would overwrite it."),
        (#"{"a":{"$k":{".inbox":{"to":"x/$u/$k","each":"y/$u","value":1}}},"#
            + #""b":{"$l":{".inbox":{"to":"x/$u/$l","each":"y/$u","value":1}}}}"#,
            "1:100: A row can be at the place of one of the inbox at 1:37, and would overwrite it."),
        (#"{"a":{"$k":{".inbox":{"to":"x/$u/$k","each":"y/$u","value":1}}},"b":{".inbox":{"to":"x/$u","each":"y/$u","value":1}}}"#,
            "1:94: A row can be at the place of one of the inbox at 1:37, and would overwrite it."),
        (#"{"a":{".inbox":{"to":"x/$u/*","each":"y/$u","value":1}}}"#,
            "1:32: A wildcard of the place of a row is one of the node's place, or that of 'each'."),
        (#"{"a":{".inbox":{"to":"x/$u","each":"y/$u","value":{"a":"each.val()"}}}}"#,
            "1:66: 'each' is seen in 'if' alone: all rows of a node are alike, and found out once."),
        (#"{"a":{".inbox":{"to":"x/$u","each":"y/$u","value":1,"not":"'a' + $u"}}}"#,
            "1:75: '$u' is seen in 'if' alone: all rows of a node are alike, and found out once."),
        (#"{"a":{".inbox":{"to":"x/$u","each":"y/$u","value":null}}}"#, "1:32: The value of a row is something."),
        (#"{"a":{".inbox":{"to":"x/$u","each":"y/$u","value":{"a.b":1}}}}"#, "1:62: 'a.b' cannot be a key of data."),
        (#"{"a":{".inbox":{"to":"x/$u","each":"y/$u","value":1,"if":"data.exists()"}}}"#,
            "1:68: 'data' is not seen here: say 'newData', as it is after the write."),
        (#"{"a":{".inbox":{"to":"x/$u","each":"y/$u","value":1,"if":"each.val()"}}}"#, "1:68: Expression must evaluate to a boolean."),
        (#"{"a":{".inbox":{"to":"x/$u","each":"y/$u","value":1,"changes":"5"}}}"#, "1:73: Expression must evaluate to a boolean."),
        (#"{"a":{"$k":{".inbox":{"to":"a/$u$k","each":"y/$u","value":1}}}}"#,
            "1:40: '$u$k' is made of parts. A segment of a place is a key, a wildcard such as $id, a {child} or *."),
        (#"{"a":{"$k":{"$l":{".inbox":{"to":"a/$u/$k/$l","each":"y/$u","value":1}}}}}"#,
            "1:43: A row that has rows follow where it came from never comes to an end."),
    ]) func slip_isRefused(_ rules: String, _ message: String) {
        #expect(faults("{\"rules\":\(rules)}").map(\.description) == [message])
    }

    @Test func rowsApart_areTaken_andFormerRulesStayInForce() throws {
        let apart = #"{"a":{"$k":{".inbox":{"to":"x/$u/a/$k","each":"y/$u","value":1}}},"#
            + #""b":{"$l":{".inbox":{"to":"x/$u/b/$l","each":"y/$u","value":1}}}}"#
        #expect(faults("{\"rules\":\(apart)}") == [])
        let rows = #"{"to":"x/$u/$k","each":"y/$u","value":1},{"to":"x/$u/$k","each":"z/$u","value":2}"#
        let shared = #"{"rules":{"a":{"$e":{"$k":{".inbox":[\#(rows)]}}}}}"#
        #expect(try RuleSet(inForce: shared).unsupported.isEmpty)
        let warnings = try RuleSet(parsing: #"{"rules":{"a":{"$e":{"$k":{".copy":"b/$k"}}}}}"#).warnings
        let warning = "1:36: Copies of two nodes can have one place, and overwrite each other: it does not have $e."
        #expect(warnings.map(\.description) == [warning])
    }

    /// If an expression fails, a value is not a key, or a row has no place, no row is written.
    @Test(arguments: [
        (#"{"by":"a/b"}"#, ConsequenceFault.Reason.illegalKey("a/b")), (#"{"by":"a"}"#, nil), (#"{"by":5}"#, nil),
        (#"{"by":1.5}"#, .illegalKey("1.5")), (#"{"by":{"x":1}}"#, .illegalKey("{…}")),
    ] as [(String, ConsequenceFault.Reason?)]) func namesThatAreNoKeys_refuseTheCommit(
        _ value: String, _ reason: ConsequenceFault.Reason?
    ) throws {
        let rules = try RuleSet(parsing: Self.rules)
        let new = [(path: Path("news/n"), value: try Node(json: value))].after(["subs": ["a": ["t0": 1]]])
        var found: ConsequenceFault.Reason?
        do throws(ConsequenceFault) { _ = try rules.consequences(of: ["/news/n"], old: ["subs": ["a": ["t0": 1]]], new: new) } catch {
            found = error.reason
        }
        #expect(found == reason)
    }

    /// Rows that do not fit into the commit are all deferred. The cost is the number of possible receivers; with an index, the number of members.
    @Test func many_areOwed_andFewAreNot() throws {
        let rules = try RuleSet(parsing: Self.rules)
        func found(_ count: Int, _ change: (inout ConsequenceLimits) -> Void = { _ in }, isIndexed: Bool = true) throws -> Consequences {
            var old: Node = ["subs": .object((0..<5_000).map { (Key("u\($0)"), $0 < count ? ["t0": true] : ["t9": true]) })]
            var limits = ConsequenceLimits()
            change(&limits)
            let index = isIndexed ? CopyIndex(rules, root: old) : nil
            let before = old
            old.set(["t": 1], at: "news/n")
            return try rules.consequences(of: ["news/n"], old: before, new: old, now: 7, limits: limits, copies: index)
        }
        // One write is the counter's.
        var some = try found(999)
        #expect(some.writes.count == 1_000 && some.continued.isEmpty && some.keysScanned <= 1_000)
        some = try found(1_000)
        #expect(some.writes.count == 1 && some.continued.map(\.most) == [1_000] && some.keysScanned <= 1)
        #expect(rules.reached(by: some.continued[0].rows, in: some.tree)?.count == 1_000)
        #expect(try found(3, isIndexed: false).continued.map(\.most) == [5_000], "how many it is, is not known")
        #expect(try found(0).continued.isEmpty)
        // Other limits that the rows may exceed.
        #expect(try found(500, { $0.bytes = 10_000 }).continued.map(\.most) == [500])
        #expect(try found(500, { $0.keys = 400 }).continued.map(\.most) == [500])
        #expect(try found(500, { $0.pendingBySource = ["news/n": 1] }).continued.map(\.most) == [500], "behind what it owes already")
        // The limit of pending rows.
        #expect(try found(4_000, { ($0.continuedRows, $0.pendingRows) = (5_000, 1_000) }).continued.count == 1)
        #expect(throws: ConsequenceFault.self) { try found(4_000, { ($0.continuedRows, $0.pendingRows) = (5_000, 1_001) }) }
        #expect(try found(4_000, { ($0.continuations, $0.pendingBySource) = (3, ["x": 2]) }).continued.count == 1)
        #expect(throws: ConsequenceFault.self) { try found(4_000, { ($0.continuations, $0.pendingBySource) = (3, ["x": 1, "y": 2]) }) }
    }

    /// Pending rows keep all of their properties when stored and read back.
    @Test func owedRows_areTheSame_whenTheyAreReadBack() throws {
        let rules = try RuleSet(parsing: Self.rules)
        let old = try Node(json: "{\(Self.subs)}")
        var new = old
        new.set(["t": "x", "by": "b", "tags": ["t1": 1]], at: "news/n")
        new.set(["in": "x", "role": ["boss": 1]], at: "rooms/r/m/1")
        new.set(["x": ["a": ["set": ["boss": 1]]]], at: "members")
        var limits = ConsequenceLimits()
        limits.defersAll = true
        let found = try rules.consequences(of: ["news/n", "rooms/r/m/1"], old: old, new: new, now: 7, limits: limits)
        #expect(found.continued.count == 2)
        for (rows, _) in found.continued {
            let read = try #require(ContinuedRows(try Node(json: rows.terms.json)))
            #expect(read == rows && rules.reached(by: read, in: found.tree) == rules.reached(by: rows, in: found.tree))
        }
        #expect(ContinuedRows(["rule": "/a.inbox"]) == nil && ContinuedRows(.null) == nil)
        #expect(found.continued.map { $0.rows.places.description } == ["/inbox/$/n", "/seen/x/$/r/1"])
        // Rules without that inbox cannot evaluate its 'if'.
        let others = try RuleSet(parsing: #"{"rules":{"news":{"$k":{".read":true}}}}"#)
        #expect(others.reached(by: found.continued[0].rows, in: found.tree) == nil)
        #expect(others.reached(by: found.continued[1].rows, in: found.tree) == ["a"])
    }

    @Test func explanation_tellsRows_andThoseThatComeBehind() throws {
        let rules = try RuleSet(parsing: Self.rules.replacing(#""news":{"#, with: #"".write":true,"news":{"#))
        var old: Node = ["subs": ["u": ["t0": true]]]
        var new = old
        new.set(["t": 1], at: "news/n")
        let few = rules.explainWrite(["news/n"], old: old, new: new, auth: .null, now: 7, following: ConsequenceLimits())
        let follows = few.follows.map { "\($0.path) \($0.rule)" }
        #expect(few.isAllowed && follows == ["/news/n/likes /news/$k.counts", "/inbox/u/n /news/$k.inbox"])
        old = ["subs": .object((0..<1_001).map { (Key("u\($0)"), ["t0": true]) })]
        new = old
        new.set(["t": 1], at: "news/n")
        let many = rules.explainWrite(["news/n"], old: old, new: new, auth: .null, now: 7, following: ConsequenceLimits())
        #expect(many.isAllowed && many.continued.count == 1 && many.follows.count == 1)
        #expect(many.description.contains("then rows /inbox/$/n: "))
    }

    /// Compared with a scan of all sets: with a complete index, with an incomplete one, and after the commit.
    @Test(arguments: Array(1...60) as [UInt64]) func randomWrites_reachAsTheModel(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let rules = try RuleSet(parsing: Self.rules)
        var tree = Node.null
        let index = CopyIndex(rules, root: tree)
        for step in 0..<100 {
            var writes: [(path: Path, value: Node)] = []
            for _ in 0...random.below(3) {
                let (k, u) = (Key(random.pick(["n", "o"])), Key(random.pick(["a", "b", "c", "zed"])))
                let t = Key(random.pick(["t0", "t1", "t2"]))
                let tags = Node.object(["t1", "t2"].filter { _ in random.chance(50) }.map { (Key($0), true) })
                let write: (Path, Node) = switch random.below(8) {
                case 0, 1: (
                    Path([Key("news"), k]),
                    random.chance(40) ? .null : ["t": .int(Int64(step)), "by": .string(u.string), "tags": tags])
                case 2: (Path([Key("news"), k, Key("again")]), .bool(random.chance(60)))
                case 3: (Path([Key("subs"), u]), random.chance(30) ? .null : ["t1": .string(random.pick(["no", "yes"])), "t0": 1])
                case 4: (Path([Key("inbox"), u, k]), random.chance(70) ? .null : 5)
                case 5: (Path([Key("subs")]), random.chance(40) ? .null : ["a": ["t2": 1], "b": ["t0": 1]])
                default: (Path([Key("subs"), u, t]), random.chance(40) ? .null : 1)
                }
                if writes.contains(where: { $0.path.contains(write.0) || write.0.contains($0.path) }) { continue }
                writes.append((write.0, write.1))
            }
            let (paths, new) = (writes.map(\.path), writes.after(tree))
            let expected = Self.model(tree, new, now: Int64(step))
            for way in 0..<4 {
                var limits = ConsequenceLimits()
                if way == 1 { limits.defersAll = true }
                if way == 3 { limits.maxIndexed = random.below(4) }
                let found = try rules.consequences(
                    of: paths, old: tree, new: new, by: .administrator, now: Int64(step), limits: limits, copies: way < 2 ? nil : index)
                var sent: [RuleDelivery] = []
                let made = rules.continuing(
                    found.continued.map(\.rows), nil, old: .null, in: found.tree, now: Int64(step), sending: &sent)
                try #require(made == expected, "step \(step) way \(way)\n\(tree.json)\n\(writes)\n\(made.json)\n\(expected.json)")
            }
            index.update([.root], old: tree, new: expected, atMost: .max)
            tree = expected
        }
    }

    private static func model(_ old: Node, _ candidate: Node, now: Int64) -> Node {
        var tree = candidate
        for (k, news) in candidate.child("news").children where news.hasChildren {
            tree.set(.int(Int64(candidate.child("likes").child(k).childCount)), at: Path([Key("news"), k, Key("likes")]))
        }
        for (k, news) in tree.child("news").children {
            let before = old.child("news").child(k)
            guard before.isNull || news.child("again") == true && before.child("again") != true else { continue }
            for (u, set) in tree.child("subs").children {
                let keys = news.child("tags").children.map(\.0) + [Key("t0")]
                guard keys.contains(where: { set.child($0).exists }), set.child("t1") != "no", u != Key("zed"),
                    Node.string(u.string) != news.child("by")
                else { continue }
                let row: Node = ["at": .int(now), "n": 1, "list": ["0": .string(k.string), "1": news.child("t")]]
                tree.set(row, at: Path([Key("inbox"), u, k]))
            }
        }
        return tree
    }
}
