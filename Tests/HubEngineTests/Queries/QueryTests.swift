import HubEngine
import JSONTree
import SecurityRules
import Testing
import TestSupport

/// Filtered listens: children that enter, leave and stay, as one tagged message (contract §3.5, checks 62–81).
@Suite(.timeLimit(.minutes(30))) struct QueryTests {
    private static let indexed = try? RuleSet(parsing: #"{"rules":{".read":true,".write":true,"k":{".indexOn":["age",".value"]}}}"#)

    private func hub(_ root: Node) -> EngineHarness { EngineHarness(rules: Self.indexed ?? .denyAll, root: root) }

    private func last(_ limit: Int, by index: TreeQuery.Index? = nil) -> TreeQuery {
        TreeQuery(index: index, limit: limit, viewFrom: .last)
    }

    private func listen(_ path: Path, _ query: TreeQuery) -> Request { .observe(path, query: query, style: .patches(tag: 1), hash: "") }

    @Test func check73_deletedChild_isReplacedInOneMessage() {
        let hub = hub(["k": ["key-1": 1, "key-2": 2, "key-3": 3]])
        let watcher = Client.make()
        #expect(hub.ask(watcher, listen("k", last(2))) == [#"d k {"key-2":2,"key-3":3}"#, "ok 0"])
        _ = hub.ask(.make(), .put("k/key-2", .null))
        #expect(hub.take(watcher) == [#"m k {"key-2":null,"key-1":1}"#])
    }

    /// Large enough to be prepared and searched in the background; the keys are unordered, and others write meanwhile.
    @Test func updateOfManyChildren_isToldToEachQuery_asItIsStored() throws {
        let keys = (0..<2_500).map { Key("n\(10_000 + $0)") }
        let hub = hub(["x": ["k": .object(keys.map { ($0, 1) })]])
        let queries = [
            TreeQuery(index: .key, limit: 2, viewFrom: .last), TreeQuery(index: .key, limit: 1_200, viewFrom: .first),
            TreeQuery(index: .key, start: .init(value: "n11000"), end: .init(value: "n12400")),
            TreeQuery(index: .priority, limit: 1_100, viewFrom: .last), TreeQuery(index: .priority, limit: 3, viewFrom: .first),
        ]
        var watchers = queries.map { (client: Client.make(), query: $0, cache: Node.null) }
        func readAll() throws {
            hub.settle()
            for i in watchers.indices {
                var lines = hub.take(watchers[i].client)
                while lines.contains("probe") {
                    for line in lines { try QueryModelTests.apply(line, &watchers[i].cache) }
                    hub.database.submit(.drained, from: watchers[i].client)
                    lines = hub.take(watchers[i].client)
                }
                for line in lines { try QueryModelTests.apply(line, &watchers[i].cache) }
            }
        }
        for watcher in watchers {
            hub.database.submit(.observe("x/k", query: watcher.query, style: .patches(tag: 1), hash: ""), from: watcher.client)
        }
        try readAll()
        var model = Node.object(keys.map { ($0, 1) })
        for (i, key) in keys.enumerated() where i % 3 > 0 { model.set(i % 3 == 1 ? .null : .int(Int64(i)), at: Path([key])) }
        let writes = keys.enumerated().filter { $0.offset % 3 > 0 }.map { TreeWrite(Path(["x", "k", $1]), WriteValue(model.child($1))) }
        hub.work.close()
        hub.database.submit(.write(writes.shuffled()), from: .make())
        hub.settle()
        for (key, value) in [("n10001", 7), ("n12499", 8), ("n99999", 9)] as [(String, Node)] {
            #expect(hub.ask(.make(), .put(Path(["x", "k", Key(key)]), value)) == ["ok 0"])
            if key != "n10001" { model.set(value, at: Path([Key(key)])) }
        }
        hub.work.open()
        try readAll()
        #expect(hub.database.counters.prepared == 1)
        for watcher in watchers {
            #expect(watcher.cache == QueryModelTests.scan(model, watcher.query), "\(watcher.query)")
        }
    }

    /// SDKs show their own write until it is answered, and then the values that the hub has sent. The query's part must have been sent by then, also
    /// where its order is too large to be updated on the queue. Others write meanwhile.
    @Test(arguments: [false, true]) func ownLargeWrite_isToldToAnOrderedQuery_beforeItsAnswer(asWhole: Bool) {
        let keys = (0..<2_500).map { Key("n\(10_000 + $0)") }
        func children(_ age: (Int) -> Int) -> [(Key, Node)] { keys.enumerated().map { ($1, ["age": .int(Int64(age($0)))]) } }
        let hub = hub(["k": .object(children { $0 })])
        let client = Client.make()
        _ = hub.ask(client, listen("k", last(2, by: .child("age"))))
        hub.settle()
        _ = hub.take(client)
        let new = children { 2 * (2_499 - $0) }
        hub.work.close()
        hub.database.submit(
            .write(asWhole ? [TreeWrite("k", WriteValue(.object(new)))] : new.map { TreeWrite(Path(["k", $0]), WriteValue($1)) }),
            from: client, size: 60_000)
        hub.settle()
        _ = hub.ask(.make(), .put("other", 1))
        if !asWhole { _ = hub.ask(.make(), .put("k/n10900/age", 1)) }
        hub.work.open()
        hub.settle()
        var lines = hub.take(client)
        while lines.last == "probe" {
            hub.database.submit(.drained, from: client)
            hub.settle()
            lines += hub.take(client)
        }
        #expect(lines.last == "ok 0", "\(lines)")
        let told = lines.dropLast().filter { $0 != "probe" }
        #expect(told.count == 1 && told[0].contains(#""n10000":{"age":4998}"#) && told[0].contains("n10001"), "\(lines)")
        #expect(hub.database.counters.prepared == 1)
    }

    @Test func check75_fiveKeyUpdate_isOneMessage() {
        let hub = hub(["k": ["a": "a", "b": "b", "c": "c0", "d": "d", "e": "e"]])
        let watcher = Client.make()
        _ = hub.ask(watcher, listen("k", TreeQuery(limit: 4, viewFrom: .first)))
        _ = hub.ask(.make(), .merge(["k/b": .null, "k/c": "a", "k/cc": "new", "k/cd": "new2", "k/d": "gone"]))
        let lines = hub.take(watcher)
        #expect(lines.count == 1)
        for part in [#""b":null"#, #""c":"a""#, #""cc":"new""#, #""cd":"new2""#, #""d":null"#] {
            #expect(lines.first?.contains(part) == true)
        }
        #expect(lines.first?.contains("gone") == false)
    }

    /// A merge that replaces all children of a node reaches observers as the whole node: applied one by one, its members could empty the node, and
    /// an observer would forget the priority.
    @Test func merge_thatReplacesAllChildrenOfANodeWithAPriority_isSentAsTheNode() throws {
        let node = try Node(json: #"{"a":1,"b":1,".priority":5}"#)
        let hub = hub(["k": ["p": node, "q": ["a": 1], "r": node]])
        func lines(_ observed: Path, _ writes: KeyValuePairs<String, Node>, _ query: TreeQuery? = nil) -> [String] {
            let watcher = Client.make()
            _ = hub.ask(watcher, query.map { listen(observed, $0) } ?? .observe(observed, style: .patches(tag: nil), hash: ""))
            defer { _ = hub.ask(watcher, .end) }
            #expect(hub.ask(.make(), .put("k", ["p": node, "q": ["a": 1], "r": node]), .merge(writes)).count == 2)
            return hub.take(watcher).suffix(1).map { $0 }
        }
        let whole = #"{"c":2,"d":3,".priority":5}"#
        #expect(lines("k/p", ["k/p/c": 2, "k/p/a": .null, "k/p/b": .null, "k/p/d": 3]) == ["d k/p \(whole)"], "the place itself")
        #expect(lines("k", ["k/p/c": 2, "k/p/a": .null, "k/p/b": .null, "k/p/d": 3]) == ["d k/p \(whole)"])
        #expect(
            lines("", ["k/p/c": 2, "k/p/a": .null, "k/p/b": .null, "k/p/d": 3, "k/q/a": .null, "k/q/c": 1])
                == [#"m  {"k/p":\#(whole),"k/q/a":null,"k/q/c":1}"#], "q has no priority")
        #expect(
            lines("k", ["k/p/c": 2, "k/p/a": .null, "k/p/b": .null, "k/p/d": 3], TreeQuery(limit: 9, viewFrom: .first)) == ["d k/p \(whole)"])
        #expect(
            lines("k", ["k/p/c": 2, "k/p/a": .null, "k/r/a": .null]) == [#"m k {"p/a":null,"p/c":2,"r/a":null}"#], "children stay")
        #expect(
            lines("", ["k/p/a": .null, "k/p/b/x": .null, "k/p/b/y": 1]) == [#"d k/p {"b":{"y":1},".priority":5}"#], "b may be empty in between")
        #expect(lines("k/p", ["k/p/a": .null, "k/p/b/x": .null, "k/p/b/y": 1]) == [#"d k/p {"b":{"y":1},".priority":5}"#])
        #expect(lines("k", ["k/p/a": .null, "k/p/b": .null, "k/q/c": 1]) == [#"m k {"p/a":null,"p/b":null,"q/c":1}"#], "the node goes")
    }

    @Test func check76_77_deepChangeInside_isDeep_andOutsideIsSilent() {
        let hub = hub(["k": ["a": ["age": 1, "n": 1], "b": ["age": 2, "n": 1], "c": ["age": 3, "n": 1]]])
        let watcher = Client.make()
        _ = hub.ask(watcher, listen("k", last(2, by: .child("age"))))
        _ = hub.ask(.make(), .put("k/b/n", 9))
        #expect(hub.take(watcher) == ["d k/b/n 9"])
        _ = hub.ask(.make(), .put("k/a/n", 9))
        #expect(hub.take(watcher) == [])
    }

    @Test func check74_childThatMovesOut_leavesWithItsReplacement() {
        let hub = hub(["k": ["a": ["age": 1], "b": ["age": 2], "c": ["age": 3]]])
        let watcher = Client.make()
        _ = hub.ask(watcher, listen("k", last(2, by: .child("age"))))
        _ = hub.ask(.make(), .put("k/b/age", 0))
        #expect(hub.take(watcher) == [#"m k {"b":null,"a":{"age":1}}"#])
        _ = hub.ask(.make(), .put("k/b/age", 5))
        #expect(hub.take(watcher) == [#"m k {"a":null,"b":{"age":5}}"#])
    }

    @Test func check78_79_missingIndex_warnsOnListen_refusesGet() {
        let hub = hub(["k": ["a": ["age": 1, "size": 1]]])
        #expect(hub.ask(.make(), listen("k", last(1, by: .child("size")))).last == "ok 0 no_index")
        #expect(hub.ask(.make(), listen("k", last(1, by: .child("age")))).last == "ok 0")
        #expect(hub.ask(.make(), .get("k", query: last(1, by: .child("size")))) == ["error 0 missing_index"])
        #expect(hub.ask(.make(), .get("k", query: last(1, by: .child("age")))) == [#"value 0 {"a":{"age":1,"size":1}}"#])
    }

    @Test func check71_72_leafHasNoChildren_andRootPriorityIsDropped() throws {
        let hub = hub(["k": try Node(json: #"{"a":1,".priority":5}"#), "leaf": 5])
        #expect(hub.ask(.make(), listen("leaf", last(1))) == ["ok 0"])
        #expect(hub.ask(.make(), listen("k", last(1))).first == #"d k {"a":1}"#)
    }

    @Test func check66_67_68_69_bounds() {
        let hub = hub(["k": ["a": ["age": 1], "b": ["age": 2], "c": ["age": 2], "d": ["age": 3], "n": ["x": 1]]])
        func keys(_ query: TreeQuery) -> [String] {
            var query = query
            query.index = .child("age")
            let answer = hub.ask(.make(), .get("k", query: query))[0].dropFirst("value 0 ".count)
            return (try? Node(json: String(answer)))?.children.map(\.key.string) ?? []
        }
        #expect(keys(TreeQuery(start: .init(value: 2))) == ["b", "c", "d"])
        #expect(keys(TreeQuery(start: .init(value: 2, key: "[MAX_NAME]", inclusive: false))) == ["d"])
        #expect(keys(TreeQuery(start: .init(value: 2, key: "b", inclusive: false))) == ["c", "d"])
        #expect(keys(TreeQuery(end: .init(value: 2))) == ["a", "b", "c", "n"])
        #expect(keys(TreeQuery(end: .init(value: 2, key: "[MIN_NAME]", inclusive: false))) == ["a", "n"])
        #expect(keys(TreeQuery(start: .init(value: .null), end: .init(value: .null))) == ["n"])
        #expect(keys(TreeQuery(start: .init(value: 9))) == [])
        #expect(keys(TreeQuery(start: .init(value: 3), end: .init(value: 1))) == [])
        #expect(keys(TreeQuery(start: .init(value: 2), limit: 1)) == ["b"], "first, because there is a start")
        #expect(keys(TreeQuery(limit: 1)) == ["d"], "last, because there is none")
    }

    @Test func check16_unlistenByTag_leavesTheOtherQueryOfThePlace() {
        let hub = hub(["k": ["a": 1, "b": 2]])
        let client = Client.make()
        _ = hub.ask(
            client, .observe("k", query: last(1), style: .patches(tag: 1), hash: ""),
            .observe("k", query: last(2), style: .patches(tag: 2), hash: ""), .listen("k"))
        _ = hub.ask(client, .unobserve("k", style: .patches(tag: 1)))
        _ = hub.ask(.make(), .put("k/b", 3))
        #expect(hub.take(client).count == 2)
    }

    @Test func queryRules_seeTheQuery() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"k":{".read":"query.limitToLast <= 5 && query.orderByKey"}}}"#)
        let hub = EngineHarness(rules: rules, root: ["k": ["a": 1]])
        #expect(hub.ask(.make(), listen("k", last(5, by: .key))).last == "ok 0")
        #expect(hub.ask(.make(), listen("k", last(6, by: .key))) == ["error 0 permission_denied"])
        #expect(hub.ask(.make(), .listen("k")) == ["error 0 permission_denied"])
    }
}

/// Random writes under random live queries: each simulated client's cache, built only from pushes, equals a full scan.
@Suite(.timeLimit(.minutes(30))) struct QueryModelTests {
    @Test(arguments: Array(1...8) as [UInt64])
    func windows_equalAFullScan_afterEveryStep(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let hub = EngineHarness(root: .null)
        let admin = Client.make()
        var model = Node.null
        var watchers: [(client: Client, query: TreeQuery, cache: Node)] = []
        let keys = ["a", "b", "c", "d", "e", "1", "2", "10", "-x", "é"]
        func pick<T>(_ list: [T]) -> T { list[Int.random(in: 0..<list.count, using: &random)] }
        func leaf() -> Node { pick([.null, .bool(false), .bool(true), .int(1), .int(2), .double(1.5), "s", "t"]) }
        func bound(_ isKey: Bool) -> TreeQuery.Bound {
            isKey ? .init(value: .string(pick(keys)), inclusive: pick([nil, true, false]))
                : .init(value: leaf(), key: pick([nil, Key(pick(keys)), "[MIN_NAME]", "[MAX_NAME]"]), inclusive: pick([nil, true, false]))
        }
        func query() -> TreeQuery {
            let index: TreeQuery.Index? = pick([nil, .key, .value, .priority, .child("v"), .child("v/w")])
            var query = TreeQuery(index: index)
            if pick([true, false]) { query.start = bound(index == .key) }
            if pick([true, false]) { query.end = bound(index == .key) }
            if query.isDefault || pick([true, true, false]) {
                query.limit = pick([1, 2, 3, 5])
                query.viewFrom = pick([nil, .first, .last])
            }
            return query
        }
        func child() throws -> Node {
            switch Int.random(in: 0..<6, using: &random) {
            case 0: return .null
            case 1: return leaf()
            case 2: return leaf().with(priority: pick([.int(1), .int(2), "p"]))
            case 3: return ["v": ["w": leaf()], "z": 1]
            default: return ["v": leaf(), "z": .int(Int64.random(in: 0..<3, using: &random))]
            }
        }
        for step in 0..<600 {
            if watchers.count < 14 {
                let (client, query) = (Client(lane: Int.random(in: 0..<2, using: &random), dialect: .realtime), query())
                var cache = Node.null
                for line in hub.ask(client, .observe("q/k", query: query, style: .patches(tag: 7), hash: "")) {
                    try Self.apply(line, &cache)
                }
                watchers.append((client, query, cache))
            } else if pick([true, false, false, false, false, false]) {
                _ = hub.ask(watchers.remove(at: Int.random(in: 0..<watchers.count, using: &random)).client, .end)
            }
            var writes: [TreeWrite] = []
            switch Int.random(in: 0..<12, using: &random) {
            case 0: writes = [TreeWrite("q/k", WriteValue(.object(try keys.map { (Key($0), try child()) })))]
            case 1: writes = [TreeWrite("q", WriteValue(pick([.null, ["k": 5], ["k": ["a": 1]]])))]
            case 2...5:
                for key in keys where pick([true, false, false]) {
                    writes.append(TreeWrite(Path([Key("q"), Key("k"), Key(key)]), WriteValue(try child())))
                }
            case 6: writes = [TreeWrite(Path([Key("q"), Key("k"), Key(pick(keys))]), part: .priority, WriteValue(pick([.null, 1, 2, "x"])))]
            default:
                let below = pick([[], [Key("v")], [Key("v"), Key("w")], [Key("z")]])
                writes = [TreeWrite(Path([Key("q"), Key("k"), Key(pick(keys))] + below), WriteValue(leaf()))]
            }
            _ = hub.ask(admin, .write(writes))
            for write in writes {
                if write.part == .priority {
                    model.setPriority(write.value.node, at: write.path)
                } else {
                    model.set(write.value.node, at: write.path)
                }
            }
            for i in watchers.indices {
                let lines = hub.take(watchers[i].client)
                #expect(lines.count <= 1, "one message per commit")
                for line in lines { try Self.apply(line, &watchers[i].cache) }
                let expected = Self.scan(model.node(at: "q/k"), watchers[i].query)
                #expect(watchers[i].cache == expected, "seed \(seed) step \(step) \(watchers[i].query)")
            }
        }
    }

    static func apply(_ line: String, _ cache: inout Node) throws {
        let parts = line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
        switch parts[0] {
        case "d": cache.set(try Node(json: parts[2]), at: try Path(parsing: parts[1]).dropping(2))
        case "m":
            for (path, value) in try mergeMembers(parts[2]) { cache.set(value, at: path) }
        default: break
        }
    }

    /// The specification, literally: filter and sort all children, keep one end (contract §3.2, §3.3).
    static func scan(_ node: Node, _ query: TreeQuery) -> Node {
        func value(_ key: Key, _ child: Node) -> Node {
            switch query.orderedBy {
            case .key: .string(key.text)
            case .value: child
            case .priority: child.priority
            case .child(let path): child.node(at: path)
            }
        }
        func compare(_ a: Key, _ b: Key) -> Int {
            a == b ? 0 : (a == "[MIN_NAME]" || b == "[MAX_NAME]" ? -1 : a == "[MAX_NAME]" || b == "[MIN_NAME]" ? 1 : a < b ? -1 : 1)
        }
        func order(_ a: (value: Node, key: Key), _ b: (value: Node, key: Key)) -> Int {
            if query.orderedBy == .key, case .string(let x) = a.value, case .string(let y) = b.value {
                return compare(Key(x.string), Key(y.string))
            }
            let first = a.value.leaf.valueOrder(b.value.leaf)
            if a.value.hasChildren != b.value.hasChildren { return a.value.hasChildren ? 1 : -1 }
            return first != 0 ? first : compare(a.key, b.key)
        }
        var rows = node.children.map { (value: value($0.key, $0.node), key: $0.key, node: $0.node) }
        if let start = query.start {
            rows = rows.filter {
                let o = order(($0.value, $0.key), (start.value, start.key ?? "[MIN_NAME]"))
                return query.orderedBy == .key && o == 0 || o == 0 ? start.isInclusive : o > 0
            }
        }
        if let end = query.end {
            rows = rows.filter {
                let o = order(($0.value, $0.key), (end.value, end.key ?? "[MAX_NAME]"))
                return o == 0 ? end.isInclusive : o < 0
            }
        }
        rows.sort { order(($0.value, $0.key), ($1.value, $1.key)) < 0 }
        if let limit = query.limit { rows = query.keeps == .first ? Array(rows.prefix(limit)) : Array(rows.suffix(limit)) }
        return .object(rows.map { ($0.key, $0.node) })
    }
}
