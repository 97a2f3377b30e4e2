import JSONTree
import Testing
import TestSupport

@testable import SecurityRules

/// `.counts`: numbers that the hub maintains.
@Suite(.timeLimit(.minutes(30))) struct CounterTests {
    private static let rules = #"""
        {"functions":{"open(x)":"x.child('open').val() == true"},"rules":{
          "e":{"$e":{".counts":{"votes":"count(votes/$e)","yes":"count(votes/$e, each.val() != 0)","sum":"sum(votes/$e)",
            "far":"sum( deep/$e/list , each.isNumber() && each.val() > 10)"}}},
          "u":{"$u":{".counts":{"mine":"count(e, each.child('by').val() == $u)",
            "open":"count(e, open(each) && $u == each.child('by').val())"}}},
          "all":{".counts":{"events":"count(e)"}},
          "pair":{"$a":{"$b":{".counts":{"n":"count(talk/$a/m, each.child('to').val() == $b)"}}}}}}
        """#

    struct Row: Sendable, CustomTestStringConvertible {
        let old: String
        let writes: KeyValuePairs<String, String>
        let then: KeyValuePairs<String, String>
        init(_ old: String, _ writes: KeyValuePairs<String, String>, _ then: KeyValuePairs<String, String>) {
            (self.old, self.writes, self.then) = (old, writes, then)
        }
        var testDescription: String { "\(old) \(writes)" }
    }

    private static let voted = #"{"e":{"x":{"t":1,"votes":2,"yes":1,"sum":3,"far":0}},"votes":{"x":{"a":3,"b":0}}}"#

    @Test(arguments: [
        // a new node counts the existing members; 0 if there are none
        Row("null", ["e/x": #"{"t":1}"#], ["e/x": #"{"t":1,"votes":0,"yes":0,"sum":0,"far":0}"#]),
        Row(#"{"votes":{"x":{"a":3,"b":0}}}"#, ["e/x/t": "1"], ["e/x": #"{"t":1,"votes":2,"yes":1,"sum":3,"far":0}"#]),
        Row("null", ["e/x/t": "1", "votes/x/a": "5"], ["e/x/votes": "1", "e/x/sum": "5"]),
        // members added, changed, removed, all removed, several at once
        Row(voted, ["votes/x/c": "4"], ["e/x/votes": "3", "e/x/yes": "2", "e/x/sum": "7"]),
        Row(voted, ["votes/x/b": "2"], ["e/x/votes": "2", "e/x/yes": "2", "e/x/sum": "5"]),
        Row(voted, ["votes/x/a": "0"], ["e/x/votes": "2", "e/x/yes": "0", "e/x/sum": "0"]),
        Row(voted, ["votes/x/a": "null"], ["e/x/votes": "1", "e/x/yes": "0", "e/x/sum": "0"]),
        Row(voted, ["votes/x": "null"], ["e/x/votes": "0", "e/x/yes": "0", "e/x/sum": "0"]),
        Row(voted, ["votes": #"{"x":{"z":1.5},"y":{"a":1}}"#], ["e/x/votes": "1", "e/x/sum": "1.5"]),
        Row(voted, ["votes/x/c": "1", "votes/x/d": "1", "votes/x/a": "null"], ["e/x/votes": "3", "e/x/sum": "2"]),
        // a value that is not a number adds nothing to a sum; a deep change of a member
        Row(voted, ["votes/x/c": #""t""#, "votes/x/d/k": "5"], ["e/x/votes": "4", "e/x/yes": "3", "e/x/sum": "3"]),
        Row(voted, ["deep/x/list": #"{"a":9,"b":11,"c":12,"d":"no"}"#], ["e/x/far": "23", "e/x/votes": "2"]),
        // a counter creates no node, and is removed with its node
        Row("null", ["votes/x/a": "1"], ["e": "null"]), Row(voted, ["e/x": "null", "votes/x/c": "1"], ["e": "null"]),
        Row(#"{"e":{"x":5}}"#, ["votes/x/a": "1"], ["e/x": "5"]),
        // sent again as stored, or left out
        Row(voted, ["e/x": #"{"t":2,"votes":2,"sum":3}"#], ["e/x": #"{"t":2,"votes":2,"yes":1,"sum":3,"far":0}"#]),
        Row(voted, ["e/x": #"{"t":2}"#, "votes/x/c": "1"], ["e/x": #"{"t":2,"votes":3,"yes":2,"sum":4,"far":0}"#]),
        Row(voted, ["e/x/votes": "null"], ["e/x/votes": "2"]),
        Row(voted, ["e/x/votes": "3", "votes/x/c": "0"], ["e/x/votes": "3"]),
        // counted by a field of the member: the member appears, changes its owner, disappears
        Row(#"{"u":{"a":{"n":1,"mine":0,"open":0},"b":{"n":1,"mine":0,"open":0}}}"#, ["e/x": #"{"by":"a","open":true}"#],
            ["u/a/mine": "1", "u/a/open": "1", "u/b/mine": "0"]),
        Row(#"{"u":{"a":{"n":1,"mine":1},"b":{"n":1,"mine":0}},"e":{"x":{"by":"a"}}}"#, ["e/x/by": #""b""#],
            ["u/a/mine": "0", "u/b/mine": "1"]),
        Row(#"{"u":{"a":{"n":1,"mine":1}},"e":{"x":{"by":"a"}}}"#, ["e": "null"], ["u/a/mine": "0"]),
        Row(#"{"e":{"x":{"by":"a"},"y":{"by":"b"},"z":{"by":"a","open":true}}}"#, ["u/a/n": "1"], ["u/a/mine": "2", "u/a/open": "1"]),
        Row(#"{"u":{"7":{"n":1,"mine":0}}}"#, ["e/x/by": "7", "e/y/by": #""a/b""#], ["u/7/mine": "1"]),
        // the whole set, and two wildcards
        Row(#"{"all":{"x":1,"events":0}}"#, ["e/x/t": "1", "e/y/t": "1"], ["all/events": "2"]),
        Row(#"{"all":{"x":1,"events":5},"e":{"a":1}}"#, ["e": #"{"a":1,"b":2,"c":3}"#], ["all/events": "7"]),
        Row(#"{"pair":{"p":{"q":{"x":1,"n":0}}}}"#, ["talk/p/m/1": #"{"to":"q"}"#, "talk/p/m/2": #"{"to":"r"}"#], ["pair/p/q/n": "1"]),
    ]) func counter_isKept(_ row: Row) throws {
        let rules = try RuleSet(parsing: Self.rules)
        let old = try Node(json: row.old)
        let writes = try row.writes.map { (path: try Path(parsing: $0.key), value: try Node(json: $0.value)) }
        let found = try rules.consequences(of: writes.map(\.path), old: old, new: writes.after(old))
        for (path, value) in row.then {
            let stored = found.tree.node(at: try Path(parsing: path))
            #expect(stored == (try Node(json: value)), "\(path) \(stored.json)")
        }
    }

    private static let more = #"""
        {"rules":{
          "d":{"$u":{"$day":{".counts":{"sum":"sum(meals/$u, each.child('kcal').val(), each.child('day').val() == $day)",
            "most":"max(meals/$u, each.child('kcal').val(), each.child('day').val() == $day && each.child('kcal').val() < 1000)"}}}},
          "p":{"$p":{".counts":{"replies":"count(c/$p/*)","long":"count(c/$p/*, each.val().length > 3)","top":"max(v/$p)","low":"min(v/$p)",
            "media":"any(m/$p)","big":"any(v/$p, each.val() > 5)"}}},
          "s":{"$u":{".counts":{"rows":{"value":"count(r/$u)","creates":true},"unread":{"value":"any(r/$u, each.val() == 1)","creates":true},
            "last":{"value":"max(r/$u)","creates":true}}}}}}
        """#

    @Test(arguments: [
        // a value of each member
        Row(#"{"d":{"u":{"1":{"x":1}}},"meals":{"u":{"a":{"kcal":200,"day":"1"},"b":{"kcal":50.5,"day":"1"},"c":{"kcal":7,"day":"2"}}}}"#,
            ["d/u/1/y": "1"], ["d/u/1/sum": "null"]),
        Row(#"{"meals":{"u":{"a":{"kcal":200,"day":"1"},"b":{"kcal":50.5,"day":"1"},"c":{"kcal":7,"day":"2"}}}}"#,
            ["d/u/1/y": "1"], ["d/u/1": #"{"y":1,"sum":250.5,"most":200}"#]),
        Row(#"{"d":{"u":{"1":{"y":1,"sum":200,"most":200},"2":{"y":1,"sum":0}}},"meals":{"u":{"a":{"kcal":200,"day":"1"}}}}"#,
            ["meals/u/a/day": #""2""#, "meals/u/b": #"{"kcal":1200,"day":"1"}"#],
            ["d/u": #"{"1":{"y":1,"sum":1200},"2":{"y":1,"sum":200,"most":200}}"#]),
        Row(#"{"d":{"u":{"1":{"y":1,"sum":0}}}}"#, ["meals/u/a": #"{"kcal":"many","day":"1"}"#], ["d/u/1": #"{"y":1,"sum":0}"#]),
        // two levels
        Row(#"{"c":{"p":{"x":{"1":"long","2":"no"},"y":{"1":"no"}}}}"#, ["p/p/t": "1"],
            ["p/p": #"{"t":1,"replies":3,"long":1,"media":false,"big":false}"#]),
        Row(#"{"p":{"p":{"t":1,"replies":3,"long":1}},"c":{"p":{"x":{"1":"long","2":"no"},"y":{"1":"no"}}}}"#,
            ["c/p/z/1": #""longer""#, "c/p/x": "null"], ["p/p/replies": "2", "p/p/long": "1"]),
        Row(#"{"p":{"p":{"t":1,"replies":3}},"c":{"p":{"x":{"1":"a","2":"b"},"y":{"1":"c"}}}}"#, ["c/p": "null"], ["p/p/replies": "0"]),
        // the greatest and the least: one comes, a better one, it changes, it goes, all go
        Row(#"{"p":{"p":{"t":1,"big":false}}}"#, ["v/p/a": "4"], ["p/p": #"{"t":1,"top":4,"low":4,"big":false}"#]),
        Row(#"{"p":{"p":{"t":1,"top":4,"low":4,"big":false}},"v":{"p":{"a":4}}}"#, ["v/p/b": "6", "v/p/c": "-1.5"],
            ["p/p": #"{"t":1,"top":6,"low":-1.5,"big":true}"#]),
        Row(#"{"p":{"p":{"t":1,"top":6,"low":2,"big":true}},"v":{"p":{"a":4,"b":6,"c":2}}}"#, ["v/p/b": "3"],
            ["p/p": #"{"t":1,"top":4,"low":2,"big":false}"#]),
        Row(#"{"p":{"p":{"t":1,"top":6,"low":2,"big":true}},"v":{"p":{"a":4,"b":6,"c":2}}}"#, ["v/p/b": "null", "v/p/d": "9"],
            ["p/p": #"{"t":1,"top":9,"low":2,"big":true}"#]),
        Row(#"{"p":{"p":{"t":1,"top":6,"low":6,"big":true}},"v":{"p":{"a":6,"b":6}}}"#, ["v/p/b": "null"],
            ["p/p": #"{"t":1,"top":6,"low":6,"big":true}"#]),
        Row(#"{"p":{"p":{"t":1,"top":6,"low":6,"big":true}},"v":{"p":{"a":6}}}"#, ["v": "null"], ["p/p": #"{"t":1,"big":false}"#]),
        // a flag
        Row(#"{"p":{"p":{"t":1,"media":false}}}"#, ["m/p/a/b": "1"], ["p/p/media": "true"]),
        Row(#"{"p":{"p":{"t":1,"media":true}},"m":{"p":{"a":1,"b":1}}}"#, ["m/p/a": "null"], ["p/p/media": "true"]),
        Row(#"{"p":{"p":{"t":1,"media":true}},"m":{"p":{"a":1}}}"#, ["m/p/a": "null"], ["p/p/media": "false"]),
        // a counter that creates its node, which goes with the last member
        Row("null", ["r/u/a": "5"], ["s/u": #"{"rows":1,"unread":false,"last":5}"#]),
        Row(#"{"s":{"u":{"rows":1,"unread":false,"last":5}},"r":{"u":{"a":5}}}"#, ["r/u/b": "1"], ["s/u": #"{"rows":2,"unread":true,"last":5}"#]),
        Row(#"{"s":{"u":{"rows":1,"unread":false,"last":5}},"r":{"u":{"a":5}}}"#, ["r/u": "null"], ["s": "null"]),
        Row(#"{"s":{"u":{"rows":1,"unread":false,"last":5,"x":1}},"r":{"u":{"a":5}}}"#, ["r/u": "null"],
            ["s/u": #"{"rows":0,"unread":false,"x":1}"#]),
        // a client cannot remove it while something counts, and can write more into it
        Row(#"{"s":{"u":{"rows":1,"unread":false,"last":5,"x":1}},"r":{"u":{"a":5}}}"#, ["s/u": "null"],
            ["s/u": #"{"rows":1,"unread":false,"last":5}"#]),
        Row(#"{"s":{"u":{"rows":1,"unread":false,"last":5,"x":1}},"r":{"u":{"a":5}}}"#, ["s": "null", "r/u/b": "7"],
            ["s/u": #"{"rows":2,"unread":false,"last":7}"#]),
        Row(#"{"s":{"u":{"rows":1,"unread":false,"last":5,"x":1}},"r":{"u":{"a":5}}}"#, ["s/u/x": "null", "r/u/a": "null"], ["s": "null"]),
        Row("null", ["s/u/x": "1"], ["s/u": #"{"x":1,"rows":0,"unread":false}"#]),
        Row("null", ["s/u/rows": "0"], ["s": "null"]),
        // It replaces no value that a client stored there, or above.
        Row(#"{"s":{"u":"Ada"}}"#, ["r/u/a": "5"], ["s/u": #""Ada""#]), Row(#"{"s":5}"#, ["r/u/a": "5"], ["s": "5"]),
        // Not counted yet, as after a deploy
        Row(#"{"r":{"u":{"a":5,"b":1,"c":2}}}"#, ["r/u/a": "null"], ["s/u": #"{"rows":2,"unread":false,"last":2}"#]),
    ]) func counterOfEveryKind_isKept(_ row: Row) throws {
        let rules = try RuleSet(parsing: Self.more)
        let old = try Node(json: row.old)
        let writes = try row.writes.map { (path: try Path(parsing: $0.key), value: try Node(json: $0.value)) }
        let found = try rules.consequences(of: writes.map(\.path), old: old, new: writes.after(old))
        for (path, value) in row.then {
            let stored = found.tree.node(at: try Path(parsing: path))
            #expect(stored == (try Node(json: value)), "\(path) \(stored.json)")
        }
    }

    /// Where the greatest value goes from a large set, it is found later; where a greater one comes at the same time, at once.
    @Test func greatestValueOfALargeSet_isFoundLater() throws {
        let rules = try RuleSet(parsing: Self.more)
        let old: Node = ["p": ["p": ["t": 1, "top": 19, "low": 0, "big": true]], "v": ["p": .object((0..<20).map { (Key("v\($0)"), .int(Int64($0))) })]]
        var limits = ConsequenceLimits()
        limits.counted = 10
        func found(_ writes: [(path: Path, value: Node)]) throws -> Consequences {
            try rules.consequences(of: writes.map(\.path), old: old, new: writes.after(old), limits: limits)
        }
        var result = try found([("v/p/v19", .null)])
        #expect(result.needsCounting && result.tree.node(at: "p/p/top") == 19)
        #expect(rules.countAll(in: result.tree).first { $0.path == "p/p/top" }?.outcome(in: result.tree) == .write(18))
        result = try found([("v/p/v19", 30)])
        #expect(!result.needsCounting && result.tree.node(at: "p/p/top") == 30)
        result = try found([("v/p/v3", .null)])
        #expect(!result.needsCounting && result.tree.node(at: "p/p/top") == 19 && result.keysScanned == 0)
    }

    /// A missing node is created by counting everything, as after a deploy.
    @Test func countOfEverything_createsNodes() throws {
        let rules = try RuleSet(parsing: Self.more)
        var tree: Node = ["r": ["u": ["a": 1, "b": 5]]]
        let corrections = rules.countAll(in: tree)
        #expect(corrections.count == 3)
        tree.set(9, at: "r/u/c")
        tree.set(["rows": 1, "last": 9], at: "s/u")
        #expect(corrections.first { $0.path == "s/u/rows" }?.outcome(in: tree) == .write(3))
        func last(_ gained: Int?, _ lost: Int?) -> CounterCorrection.Outcome? {
            let change = CounterChange(.max, gained: gained.map { CounterSum(count: $0) }, lost: lost.map { CounterSum(count: $0) })
            return corrections.first { $0.path == "s/u/last" }?.outcome(in: tree, since: change)
        }
        // 5 was counted, and 9 is stored.
        #expect(last(9, nil) == .isRight && last(9, 8) == .isRight && last(8, nil) == .write(8) && last(nil, 4) == .write(5))
        #expect(last(nil, 5) == .countAgain && last(9, 9) == .countAgain && last(6, 7) == .countAgain)
        #expect(corrections.first { $0.path == "s/u/unread" }?.outcome(in: tree) == .write(true))
    }

    private static let form = #"{"votes": "count(votes/$e)"}, or {"votes": {"value": "count(votes/$e)", "creates": true}}"#

    /// Clients may send a counter's stored value or leave it out; a value from an administrator is replaced.
    @Test(arguments: [
        ("e/x/votes", "3"), ("e/x/votes", "\"2\""),
        ("e/x", #"{"t":1,"votes":1}"#), ("e", #"{"x":{"t":1,"sum":4}}"#), ("e/y", #"{"votes":1}"#),
        ("e/y/votes", "1"), ("/", #"{"e":{"x":{"t":1,"votes":3}}}"#),
    ]) func counter_isNotWrittenByClients(_ path: String, _ value: String) throws {
        let rules = try RuleSet(parsing: Self.rules)
        let old = try Node(json: Self.voted)
        let write = (path: try Path(parsing: path), value: try Node(json: value))
        do throws(ConsequenceFault) {
            _ = try rules.consequences(of: [write.path], old: old, new: [write].after(old))
            Issue.record("accepted")
        } catch {
            if case .counterWritten = error.reason {} else { Issue.record("\(error)") }
            #expect(error.rule == "/e/$e.counts")
        }
        let found = try rules.consequences(of: [write.path], old: old, new: [write].after(old), by: .administrator)
        #expect(rules.countAll(in: found.tree) == [])
    }

    @Test(arguments: [
        (#"{"a":{".counts":{}}}"#, "1:26: '.counts' is an object of names and what they count: \(form)."),
        (#"{"a":{".counts":"count(x)"}}"#, "1:26: '.counts' is an object of names and what they count: \(form)."),
        (#"{"a":{".counts":{"n":5}}}"#, "1:31: '.counts' is an object of names and what they count: \(form)."),
        (#"{"a":{".counts":{"n.":"count(x)"}}}"#, "1:27: 'n.' cannot be a key of data."),
        (#"{"a":{".counts":{"n":"most(x)"}}}"#,
            "1:32: A counter is 'count(place)', 'sum(place)', 'max(place)', 'min(place)' or 'any(place)', with a value and a condition if "
                + "needed: 'count(votes/$e, each.val() > 0)', 'sum(meals/$u, each.child('calories').val())'."),
        (#"{"a":{".counts":{"n":"count(x/$y)"}}}"#, "1:38: The counted place has keys, wildcards of the node's own place, and *."),
        (#"{"a":{".counts":{"n":"count(x/+)"}}}"#, "1:38: The counted place has keys, wildcards of the node's own place, and *."),
        (#"{"a":{".counts":{"n":"count(x, each.exists(), each.exists())"}}}"#, "1:54: Unexpected ','."),
        (#"{"a":{".counts":{"n":"sum(x, each.val(), each.val())"}}}"#, "1:51: Expression must evaluate to a boolean."),
        (#"{"a":{".counts":{"n":"max(x, each)"}}}"#, "1:39: Expression must evaluate to a number, boolean, string, or null."),
        (#"{"$a":{".counts":{"n":"max(x, $a, each.val() == $a)"}}}"#,
            "1:40: A wildcard that is not in the counted place stands in one == only."),
        (#"{"a":{".counts":{"n":{"value":"count(x)","create":true}}}}"#, "1:31: '.counts' is an object of names and what they count: \(form)."),
        (#"{"$a":{".expire":"data.val()",".counts":{"n":{"value":"count(x/$a)","creates":true}}}}"#,
            "1:28: The node's counters would create it again. Let what they count expire."),
        (#"{"a":{".counts":{"n":{"creates":true}}}}"#, "1:31: '.counts' is an object of names and what they count: \(form)."),
        (#"{"$a":{".counts":{"n":"count(x)"}}}"#,
            "1:33: '$a' is to be in the counted place, or compared with == in the condition: "
                + "'count(posts, each.child('user').val() == $a)'."),
        (#"{"$a":{".counts":{"n":"count(x, each.val() == $a && $a != 'b')"}}}"#,
            "1:62: A wildcard that is not in the counted place stands in one == only."),
        (#"{"a":{".counts":{"n":"count(x, data.exists())"}}}"#,
            "1:41: 'data' is not seen here: what counts depends on 'each', the counted child, alone."),
        (#"{"a":{".counts":{"n":"count(x, each.parent().exists())"}}}"#,
            "1:41: parent() is not seen here: what counts depends on 'each', the counted child, alone."),
        (#"{"a":{".counts":{"n":"count(x, each.val())"}}}"#, "1:41: Expression must evaluate to a boolean."),
        (#"{"a":{".counts":{"n":"count(a, each.val() > 1)"}}}"#, "1:31: A counter that counts what depends on it never comes to an end."),
        (#"{"a":{"$a":{".counts":{"n":"sum(b/$a)"}}},"b":{"$b":{".counts":{"m":"sum(a, each.child('k').val() == $b)"}}}}"#,
            "1:37: A counter that counts what depends on it never comes to an end."),
    ]) func slip_isRefused(_ rules: String, _ message: String) {
        #expect(faults("{\"rules\":\(rules)}").map(\.description) == [message])
    }

    /// The cost of a counter depends on the change, not on the size of its set.
    @Test func cost_followsTheChange() throws {
        let rules = try RuleSet(parsing: Self.rules)
        let votes = Node.object((0..<20_000).map { (Key("v\($0)"), 1) })
        let old: Node = ["e": ["x": ["t": 1, "votes": 20_000, "yes": 20_000, "sum": 20_000, "far": 0]], "votes": ["x": votes]]
        var new = old
        new.set(5, at: "votes/x/v7")
        let found = try rules.consequences(of: ["/votes/x/v7"], old: old, new: new)
        #expect(found.keysScanned == 0 && found.writes.map(\.value) == [20_004])
        // Without a condition, even a whole set is not visited.
        let plain = try RuleSet(parsing: #"{"rules":{"e":{"$e":{".counts":{"votes":"count(votes/$e)"}}}}}"#)
        new.set(.null, at: "votes/x")
        #expect(try plain.consequences(of: ["/votes/x"], old: old, new: new).keysScanned == 0)
        // Nor if the node was removed, whatever its counters are.
        let gone: Node = ["a": 1]
        #expect(try rules.consequences(of: ["/e", "/votes/x"], old: old, new: gone).keysScanned < 10)
    }

    @Test func largeSetOfANewNode_isLeftToBeCountedLater() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"e":{"$e":{".counts":{"sum":"sum(votes/$e)","n":"count(votes/$e)"}}}}}"#)
        let old: Node = ["votes": ["x": .object((0..<10).map { (Key("v\($0)"), 2) })]]
        var new = old
        new.set(1, at: "e/x/t")
        var limits = ConsequenceLimits()
        limits.counted = 10
        var found = try rules.consequences(of: ["/e/x/t"], old: old, new: new, limits: limits)
        #expect(!found.needsCounting && found.tree.node(at: "e/x") == ["t": 1, "n": 10, "sum": 20] && found.counted.count == 2)
        limits.counted = 9
        found = try rules.consequences(of: ["/e/x/t"], old: old, new: new, limits: limits)
        #expect(found.needsCounting && found.tree.node(at: "e/x") == ["t": 1, "n": 10, "sum": 0] && found.counted.count == 1)
        let corrections = rules.countAll(in: found.tree)
        #expect(corrections.map(\.path) == ["/e/x/sum"] && corrections.map { $0.outcome(in: found.tree) } == [.write(20)])
    }

    /// A stored sum that was rounded is added up again. If that is too much for the commit, it stays until it has been recounted.
    @Test func roundedSum_isAddedUpAgain() throws {
        let rules = try RuleSet(parsing: Self.sumRules)
        var tree: Node = ["e": ["x": ["t": 1, "sum": 0]]]
        func write(_ value: Node, _ path: Path, _ limits: ConsequenceLimits = ConsequenceLimits()) throws -> Consequences {
            let writes = [(path: path, value: value)]
            let found = try rules.consequences(of: [path], old: tree, new: writes.after(tree), limits: limits)
            tree = found.tree
            return found
        }
        for (user, vote) in ["a": 0.25, "b": 0x1p53] { _ = try write(.number(vote), Path(["votes", "x", Key(user)])) }
        #expect(CounterSum(stored: tree.node(at: "e/x/sum")) == nil)
        #expect(rules.countAll(in: tree) == [])
        let rounded = tree
        #expect(try write(.null, "votes/x/b").needsCounting == false)
        #expect(tree.node(at: "e/x/sum") == 0.25)

        tree = rounded
        var limits = ConsequenceLimits()
        limits.counted = 0
        let found = try write(.null, "votes/x/b", limits)
        #expect(found.needsCounting && tree.node(at: "e/x/sum") == rounded.node(at: "e/x/sum"))
        let correction = try #require(rules.countAll(in: tree).first)
        #expect(correction.outcome(in: tree) == .write(0.25))
        // The sum has changed meanwhile, by an unknown amount.
        tree.set(0.25, at: "e/x/sum")
        #expect(correction.outcome(in: tree) == .countAgain)
        tree.set(0x1p60, at: "e/x/sum")
        #expect(correction.outcome(in: tree) == .countAgain)
        tree.set(.null, at: "e/x")
        #expect(correction.outcome(in: tree) == .isRight)
    }

    private static let sumRules = #"{"rules":{"e":{"$e":{".counts":{"sum":"sum(votes/$e)"}}}}}"#

    /// A user changes his own vote and takes it back; the sum of the others stays the same.
    @Test(arguments: [[0x1p53, 0.1], [0x1p53, 0.49, -0x1p53], [-0x1p53, 0.25, 0x1p53 - 1, 0.9], [1e9, 0.3, -1e9], [0.1], [1e300, 0.7]])
    func ownVote_cannotDriveASum(_ votes: [Double]) throws {
        let rules = try RuleSet(parsing: Self.sumRules)
        var tree = try Node(json: #"{"e":{"x":{"t":1,"sum":50.3}},"votes":{"x":{"a":45.1,"b":5.2}}}"#)
        for _ in 0..<50 {
            for vote in votes.map({ Node.number($0) }) + [.null] {
                let write: [(path: Path, value: Node)] = [("votes/x/eve", vote)]
                tree = try rules.consequences(of: [write[0].path], old: tree, new: write.after(tree)).tree
            }
        }
        #expect(tree.node(at: "e/x/sum") == 50.3)
    }

    /// Sums of integers, fractions and both, compared with decimal arithmetic.
    @Test(arguments: Array(1...30) as [UInt64]) func randomNumbers_addUpExactly(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let rules = try RuleSet(parsing: Self.sumRules)
        // Each number with its value in millionths.
        let numbers: [(Double, Int128)] = [
            (0.1, 100_000), (-0.1, -100_000), (0.25, 250_000), (2.675, 2_675_000), (0.000001, 1), (0.0000004, 0),
            (7, 7_000_000), (-3, -3_000_000),
            (999_999_999.9, 999_999_999_900_000), (1_000_000_000.5, 0), (0x1p53, 9_007_199_254_740_992_000_000), (1e300, 0),
            (-0x1p53, -9_007_199_254_740_992_000_000), (4_503_599_627_370_495, 4_503_599_627_370_495_000_000),
        ]
        let used = numbers.filter { _ in random.chance(50) }
        guard !used.isEmpty else { return }
        var tree: Node = ["e": ["x": ["t": 1, "sum": 0]]]
        var votes: [Key: Int128] = [:]
        for step in 0..<200 {
            let user = Key("u\(random.below(6))")
            let vote = random.chance(35) ? nil : random.pick(used)
            votes[user] = vote?.1
            let write = [(path: Path(["votes", "x", user]), value: vote.map { Node.number($0.0) } ?? .null)]
            tree = try rules.consequences(of: [write[0].path], old: tree, new: write.after(tree)).tree
            let (sum, stored) = (votes.values.reduce(0, +), tree.node(at: "e/x/sum"))
            let near = Double(sum) / 1e6
            let isRight = switch stored {
            case .int(let number) where sum % 1_000_000 == 0: Int128(number) * 1_000_000 == sum
            case .int(let number): near.magnitude >= 0x1p52 && (Double(number) - near).magnitude <= near.ulp * 2
            case .double(let number): near.magnitude <= 1e9 ? number == near : (number - near).magnitude <= near.ulp * 2
            default: false
            }
            #expect(isRight, "step \(step): \(stored.json) for \(sum) millionths")
            #expect(rules.countAll(in: tree) == [], "step \(step)")
        }
    }

    // MARK: Model

    /// After each of many random writes with cascades, all counters equal a recount.
    @Test(arguments: Array(1...60) as [UInt64]) func randomWrites_keepCounters_asCountedAnew(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let rules = try RuleSet(parsing: #"""
            {"rules":{
              "e":{"$e":{".removes":"votes/$e",
                ".counts":{"votes":"count(votes/$e)","yes":"count(votes/$e, each.val() > 1)","sum":"sum(votes/$e)"}}},
              "u":{"$u":{".counts":{"mine":"count(e, each.child('by').val() == $u)",
                "big":"count(e, each.child('by').val() == $u && each.child('votes').val() > 1)"}}},
              "all":{".counts":{"events":"count(e)"}}}}
            """#)
        var tree = Node.null
        var (made, refused) = (0, 0)
        for step in 0..<150 {
            var writes: [(path: Path, value: Node)] = []
            for _ in 0...random.below(3) {
                let path = Self.path(&random)
                if writes.contains(where: { $0.path.contains(path) || path.contains($0.path) }) { continue }
                writes.append((path, random.chance(25) ? .null : Self.value(&random, path)))
            }
            let isAdmin = random.chance(50)
            do throws(ConsequenceFault) {
                let author: ConsequenceAuthor = isAdmin ? .administrator : .client
                let found = try rules.consequences(of: writes.map(\.path), old: tree, new: writes.after(tree), by: author)
                let wrong = Self.wrong(found.tree)
                guard wrong.isEmpty, rules.countAll(in: found.tree).isEmpty else {
                    let sent = writes.map { "\($0.path) \($0.value.json)" }
                    Issue.record("step \(step): \(wrong)\n\(tree.json)\n\(sent)\n\(found.tree.json)")
                    return
                }
                tree = found.tree
                made += 1
            } catch {
                if case .counterWritten = error.reason, !isAdmin {} else { Issue.record("\(error)") }
                refused += 1
            }
        }
        #expect(made > 50)
    }

    private static func path(_ random: inout SeededRandom) -> Path {
        let (e, u) = (Key(random.pick(["x", "y", "z"])), Key(random.pick(["a", "b"])))
        return switch random.below(11) {
        case 0: Path([Key("e"), e])
        case 1: Path([Key("e"), e, Key(random.pick(["by", "votes", "t"]))])
        case 2: Path([Key("votes"), e])
        case 3, 4, 5: Path([Key("votes"), e, u])
        case 6: Path([Key("u"), u])
        case 7: Path([Key("u"), u, Key("name")])
        case 8: Path([Key("all"), Key("x")])
        case 9: Path([Key(random.pick(["e", "votes", "u"]))])
        default: Path([Key("e"), e, Key("t")])
        }
    }

    private static func value(_ random: inout SeededRandom, _ path: Path) -> Node {
        let event: Node = ["by": .string(random.pick(["a", "b"])), "t": 1]
        switch (path.keys.first?.string, path.depth) {
        case ("e", 1): return .object(["x", "y"].filter { _ in random.chance(70) }.map { (Key($0), event) })
        case ("e", 2): return random.chance(10) ? 5 : event
        case ("votes", 1): return ["x": ["a": 1, "b": 2], "z": ["b": 3]]
        case ("votes", 2): return ["a": .int(Int64(random.below(4))), "c": "text"]
        case ("u", 1): return ["a": ["name": "A"], "b": ["name": "B"]]
        case ("u", 2): return ["name": "N"]
        default: return path.last == "by" ? .string(random.pick(["a", "b"])) : .int(Int64(random.below(4)))
        }
    }

    /// Counters that differ from a recount.
    private static func wrong(_ tree: Node) -> [String] {
        var wrong: [String] = []
        func number(_ node: Node) -> Int64? { if case .int(let value) = node { value } else { nil } }
        func check(_ node: Node, _ name: String, _ value: Int) {
            if node.hasChildren, number(node.child(Key(name))) != Int64(value) {
                wrong.append("\(name) is \(node.child(Key(name)).json), not \(value)")
            }
        }
        let events = Array(tree.child("e").children)
        for (key, event) in events {
            let votes = tree.child("votes").child(key).children.map { number($0.1) ?? 0 }
            check(event, "votes", votes.count)
            check(event, "yes", votes.count { $0 > 1 })
            check(event, "sum", Int(votes.reduce(0, +)))
        }
        for (key, user) in tree.child("u").children {
            let mine = events.filter { $0.1.child("by") == .string(key.string) }
            check(user, "mine", mine.count)
            check(user, "big", mine.count { (number($0.1.child("votes")) ?? 0) > 1 })
        }
        check(tree.child("all"), "events", events.count)
        return wrong
    }
}
