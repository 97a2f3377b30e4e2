import JSONTree
import Testing
import TestSupport

@testable import SecurityRules

/// `.copy`: copies that the hub creates, changes and removes with their node.
@Suite(.timeLimit(.minutes(30))) struct CopyTests {
    private static let rules = #"""
        {"functions":{"isFriend(x)":"x.val() == 'added'"},"rules":{
          "posts":{"$p":{
            ".counts":{"comments":"count(comments/$p)"},
            ".copy":["by/{user}/$p",{"to":"timeline/$f/$p","each":"friends/{user}/$f",
              "if":"isFriend(each) && $f != newData.child('not').val('')"}]}},
          "plain":{".copy":"second"},"lists":{"$l":{".copy":{"to":"in/{of}/$w/$l","each":"who/$w"}}},
          "rooms":{"$r":{"m":{"$m":{".copy":[{"to":"seen/$r/$a/$b/$m","each":"members/$r/$a/$b"}]}}}}}}
        """#

    struct Row: Sendable, CustomTestStringConvertible {
        let old: String
        let writes: KeyValuePairs<String, String>
        let then: KeyValuePairs<String, String>
        /// Writes of the hub.
        let count: Int
        init(_ old: String, _ writes: KeyValuePairs<String, String>, _ count: Int, _ then: KeyValuePairs<String, String>) {
            (self.old, self.writes, self.then, self.count) = (old, writes, then, count)
        }
        var testDescription: String { "\(old) \(writes)" }
    }

    private static let friends = #""friends":{"u":{"a":"added","b":"pending","c":"added"}}"#
    private static let post = #"{"user":"u","t":1,"comments":0}"#
    private static let posted = #"{"posts":{"p":\#(post)},"by":{"u":{"p":\#(post)}},"#
        + #""timeline":{"a":{"p":\#(post)},"z":{"p":\#(post)}},\#(friends)}"#

    @Test(arguments: [
        // a new node: one copy, and one for each target that passes
        Row("{\(friends)}", ["posts/p": #"{"user":"u","t":1}"#], 4,
            ["by/u/p": post, "timeline/a/p": post, "timeline/b": "null", "timeline/c/p": post]),
        Row(
            "{\(friends)}", ["posts/p/user": #""u""#, "posts/p/t": "1", "posts/p/comments": "0"], 3,
            ["timeline/a/p": post, "by/u/p": post]),
        Row("{\(friends)}", ["posts": #"{"p":{"user":"u","not":"a"}}"#], 3,
            ["timeline/a": "null", "timeline/c/p": #"{"user":"u","not":"a","comments":0}"#]),
        Row("null", ["posts/p": #"{"user":"u","t":1}"#, "friends/u/n": #""added""#], 3, ["timeline/n/p": post]),
        Row("{\(friends)}", ["posts/p": #"{"t":1}"#], 1, ["timeline": "null", "by": "null"]),
        Row("{\(friends)}", ["posts/p": "5"], 0, ["timeline": "null", "by": "null"]),
        // a change: every existing copy, whichever targets pass by now, and no others
        Row(posted, ["posts/p/t": "2"], 3, [
            "by/u/p/t": "2", "timeline/a/p/t": "2", "timeline/z/p/t": "2", "timeline/c": "null",
        ]),
        Row(posted, ["posts/p/t": "2", "timeline/a/p": "null"], 2, ["timeline/a": "null", "timeline/z/p/t": "2"]),
        Row(posted, ["comments/p/1": #""hi""#], 4, ["by/u/p/comments": "1", "timeline/z/p/comments": "1"]),
        // a changed field moves the copy whose place contains it, and no other
        Row(posted, ["posts/p/user": #""w""#], 4, [
            "by": #"{"w":{"p":{"user":"w","t":1,"comments":0}}}"#, "timeline/a/p/user": #""w""#, "timeline/z/p/user": #""w""#,
        ]),
        Row(posted, ["posts/p/user": "7"], 4, ["by": #"{"7":{"p":{"user":7,"t":1,"comments":0}}}"#]),
        Row(posted, ["posts/p/user": "null"], 3, ["by": "null", "timeline/a/p": #"{"t":1,"comments":0}"#]),
        Row(posted, ["posts/p/user": #""w""#, "by/u/p": "null"], 2, ["by": "null"]),
        Row(posted, ["posts/p/user": #""w""#, "by/w/p": #"{"user":"w","t":1,"comments":0}"#], 3, ["by/u": "null", "by/w/p/t": "1"]),
        Row(#"{"posts":{"p":{"t":1,"comments":0}},\#(friends)}"#, ["posts/p/user": #""u""#], 1,
            ["by/u/p": post, "timeline": "null"]),
        Row(#"{"posts":{"p":{"user":7,"comments":0}},"by":{"7":{"p":{"user":7,"comments":0}}}}"#, ["posts/p/user": #""7""#], 1,
            ["by": #"{"7":{"p":{"user":"7","comments":0}}}"#]),
        Row(#"{"posts":{"p":{"user":"a/b","comments":0}}}"#, ["posts/p/user": #""u""#], 1, ["by/u/p/comments": "0"]),
        Row(#"{"lists":{"l":{"of":"x","n":1}},"in":{"x":{"a":{"l":1},"b":{"l":1,"m":1}}},"who":{"a":1,"b":1,"c":1}}"#,
            ["lists/l/of": #""y""#], 4, ["in": #"{"x":{"b":{"m":1}},"y":{"a":{"l":{"of":"y","n":1}},"b":{"l":{"of":"y","n":1}}}}"#]),
        // a copy that a client writes itself is left if equal, otherwise corrected; one that it removes stays removed
        Row(posted, ["posts/p/t": "2", "by/u/p/t": "2", "timeline/a/p/t": "2", "timeline/z/p/t": "2"], 0, ["timeline/c": "null"]),
        Row(posted, ["posts/p/t": "2", "timeline/a/p/t": "3"], 3, ["timeline/a/p/t": "2"]),
        Row(posted, ["by/u/p": "null"], 0, ["by": "null"]), Row(posted, ["friends/u/d": #""added""#], 0, ["timeline/d": "null"]),
        // removal of the node, or of a place above it
        Row(posted, ["posts/p": "null"], 3, ["by": "null", "timeline": "null"]),
        Row(posted, ["posts": "null"], 3, ["by": "null", "timeline": "null"]),
        Row("null", ["plain": #"{"x":1}"#], 1, ["second": #"{"x":1}"#]),
        Row(#"{"plain":{"x":1},"second":{"x":1}}"#, ["plain/x/y": "3"], 1, ["second": #"{"x":{"y":3}}"#]),
        Row(#"{"plain":{"x":1},"second":{"x":1}}"#, ["plain/x": "null"], 1, ["second": "null"]),
        // two wildcards
        Row(#"{"members":{"r":{"a":{"x":1,"y":1},"b":{"x":1}},"s":{"a":{"x":1}}}}"#, ["rooms/r/m/1": "7"], 3,
            ["seen": #"{"r":{"a":{"x":{"1":7},"y":{"1":7}},"b":{"x":{"1":7}}}}"#]),
    ]) func copies_followTheirNode(_ row: Row) throws {
        let rules = try RuleSet(parsing: Self.rules)
        let old = try Node(json: row.old)
        let writes = try row.writes.map { (path: try Path(parsing: $0.key), value: try Node(json: $0.value)) }
        let found = try rules.consequences(of: writes.map(\.path), old: old, new: writes.after(old), by: .administrator)
        #expect(found.writes.count == row.count, "\(found.writes.map { "\($0.path) \($0.value.json)" })")
        for (path, value) in row.then {
            let stored = found.tree.node(at: try Path(parsing: path))
            #expect(stored == (try Node(json: value)), "\(path) \(stored.json)")
        }
    }

    private static let form = #"A copy is a place such as "posts-of/{author}/$post", or {"to": …, "each": …, "if": …}."#

    @Test(arguments: [
        (#"{".copy":"x"}"#, "1:11: A '.copy' stands below the root."), (#"{"a":{".copy":5}}"#, "1:24: \(form)"),
        (#"{"a":{".copy":[]}}"#, "1:24: \(form)"), (#"{"a":{".copy":{"each":"x/$f"}}}"#, "1:24: \(form)"),
        (#"{"a":{".copy":{"to":"x","too":"y"}}}"#, "1:34: \(form)"), (#"{"a":{".copy":"x/y.z"}}"#, "1:27: 'y.z' cannot be a key of data."),
        (#"{"a":{".copy":"x/$f"}}"#, "1:25: A wildcard of the place of a copy is one of the node's place, or of 'each'."),
        (#"{"a":{".copy":{"to":"x","each":"y/$f"}}}"#, "1:31: The place of a copy has every wildcard of 'each': else two would be one."),
        (#"{"a":{".copy":{"to":"x/$f","each":"y/$f/*"}}}"#,
            "1:31: The place of a copy has every wildcard of 'each': else two would be one."),
        (#"{"a":{".copy":{"to":"x","if":"true"}}}"#, "1:40: 'if' belongs to 'each'."),
        (#"{"a":{".copy":{"to":"x/$f","each":"y/$f","if":"each.val()"}}}"#, "1:57: Expression must evaluate to a boolean."),
        (#"{"a":{"$b":{".copy":"a/x/{v}"}}}"#, "1:30: A copy that is copied to where it came from never comes to an end."),
        (#"{"a":{".copy":"b/x"},"b":{".copy":"c"},"c":{"d":{".copy":"a/y"}}}"#,
            "1:24: A copy that is copied to where it came from never comes to an end."),
        (#"{"a":{"$k":{".copy":"b/$k"}},"c":{".counts":{"n":"count(b)"},".copy":"a/n"}}"#,
            "1:59: A counter that counts what depends on it never comes to an end."),
    ]) func slip_isRefused(_ rules: String, _ message: String) {
        #expect(faults("{\"rules\":\(rules)}").map(\.description) == [message])
    }

    @Test func illegalKey_andDepth_refuseTheCommit() throws {
        let rules = try RuleSet(parsing: Self.rules)
        func reason(_ path: Path, _ value: Node) -> ConsequenceFault.Reason? {
            let new = [(path: path, value: value)].after(.null)
            do throws(ConsequenceFault) { _ = try rules.consequences(of: [path], old: .null, new: new) } catch { return error.reason }
            return nil
        }
        #expect(reason("/posts/p", ["user": "a/b"]) == .illegalKey("a/b") && reason("/posts/p", ["user": "a"]) == nil)
        let deeper = try RuleSet(parsing: #"{"rules":{"a":{".copy":"b/c"}}}"#)
        var deep = Node.int(1)
        for _ in 0..<30 { deep = ["a": deep] }
        #expect(try deeper.consequences(of: ["/a"], old: .null, new: ["a": deep]).writes.count == 1)
        #expect(throws: ConsequenceFault.self) { try deeper.consequences(of: ["/a"], old: .null, new: ["a": ["a": deep]]) }
    }

    /// A post to many friends is one commit, and reads each friend once.
    @Test func manyFriends_costOneLookEach() throws {
        let rules = try RuleSet(parsing: Self.rules)
        let old: Node = ["friends": ["u": .object((0..<500).map { (Key("f\($0)"), "added") })]]
        var new = old
        new.set(["user": "u", "t": 1], at: "posts/p")
        let found = try rules.consequences(of: ["/posts/p"], old: old, new: new)
        #expect(found.writes.count == 502 && found.keysScanned == 500)
    }

    /// With an index, a change visits the existing copies only, not every possible target.
    @Test func index_findsCopiesWithoutASearch() throws {
        let rules = try RuleSet(parsing: Self.rules)
        var old: Node = ["posts": ["p": ["user": "u", "comments": 0], "q": ["user": "u", "comments": 0]]]
        old.set(.object((0..<1000).map { (Key("f\($0)"), $0 < 3 ? ["p": 1, "q": 1] : ["q": 1]) }), at: "timeline")
        var new = old
        new.set(5, at: "posts/p/t")
        let index = CopyIndex(rules, root: old)
        #expect(index.count == 1003)
        let found = try rules.consequences(of: ["/posts/p/t"], old: old, new: new, copies: index)
        #expect(found.writes.count == 3 && found.keysScanned <= 6)
        #expect(try rules.consequences(of: ["/posts/p/t"], old: old, new: new).keysScanned >= 1000)
        index.update(["/timeline"], old: old, new: .null, atMost: .max)
        #expect(index.count == 0)
    }

    /// Each change writes a whole copy, so its bytes count, including its path and many small nodes.
    @Test func copies_areBounded_inBytes() throws {
        let rules = try RuleSet(parsing: Self.rules)
        let friends: Node = ["u": .object((0..<100).map { (Key("f\($0)"), "added") })]
        func bytes(_ post: Node) throws -> Int {
            let old: Node = ["friends": friends]
            var new = old
            new.set(post, at: "posts/p")
            return try rules.consequences(of: ["/posts/p"], old: old, new: new).bytes
        }
        let small = try bytes(["user": "u", "t": 1])
        let text = try bytes(["user": "u", "t": .string(String(repeating: "x", count: 10_000))])
        #expect(text - small > 101 * 9_990 && text - small < 101 * 10_020)
        #expect(try bytes(["user": "u", "t": .object((0..<300).map { (Key("\($0)"), 1) })]) - small > 101 * 300 * 32)

        var limits = ConsequenceLimits()
        for (most, isRefused) in [(small, false), (small - 1, true)] {
            limits.bytes = most
            var new: Node = ["friends": friends]
            let old = new
            new.set(["user": "u", "t": 1], at: "posts/p")
            do throws(ConsequenceFault) {
                let found = try rules.consequences(of: ["/posts/p"], old: old, new: new, limits: limits)
                #expect(!isRefused && found.writes.count == 102)
            } catch { #expect(isRefused && error.reason == .tooManyBytes(most)) }
        }
    }

    /// A value that is not a key is named in the error, but never written out, however large it is.
    @Test func objectInThePlaceOfAKey_isNotWrittenOut() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"posts":{"$p":{".copy":"by/{user}/$p"}}}}"#)
        let new: Node = ["posts": ["p": ["user": .object((0..<1_000).map { (Key("\($0)"), 1) })]]]
        do throws(ConsequenceFault) {
            _ = try rules.consequences(of: ["/posts/p"], old: .null, new: new)
            Issue.record("it was followed")
        } catch { #expect(error.reason == .illegalKey("{…}")) }
    }

    /// A commit that changes many possible copy places leaves them pending in the index: searches cover them until all are processed.
    @Test func indexOfManyChanges_isUpdatedInParts() throws {
        let rules = try RuleSet(parsing: Self.rules)
        let old: Node = ["posts": ["p17": ["user": "u", "comments": 0]], "timeline": ["x": ["p17": 1]]]
        var new = old
        new.set(.object((0..<100).map { (Key("p\($0)"), 1) }), at: "timeline/me")
        let index = CopyIndex(rules, root: old)
        #expect(index.update(["/other", "/timeline/me"], old: old, new: new, atMost: 50) == "/timeline/me")
        #expect(index.open == ["/timeline/me"] && index.count <= 51)
        func copied() throws -> ([Path], Int) {
            var changed = new
            changed.set(5, at: "posts/p17/t")
            let found = try rules.consequences(of: ["/posts/p17/t"], old: new, new: changed, copies: index)
            return (found.writes.map(\.path), found.keysScanned)
        }
        let both: [Path] = ["/timeline/me/p17", "/timeline/x/p17"]
        #expect(try Set(copied().0) == Set(both), "where it is open there is one place to look at")
        #expect(try copied().1 <= 3)
        let all = try #require(CopyIndex.places(rules, below: "/timeline/me", old: old, new: new, atMost: 100))
        #expect(all.count == 100 && CopyIndex.places(rules, below: "/timeline/me", old: old, new: new, atMost: 99) == nil)
        #expect(CopyIndex(rules, root: new, most: 101)?.count == 101 && CopyIndex(rules, root: new, most: 100) == nil)
        // Removed again before it was processed.
        new.set(.null, at: "timeline/me/p3")
        index.update(["/timeline/me/p3"], old: .null, new: new)
        index.refresh(all.prefix(60), in: new)
        index.refresh(all.dropFirst(60), in: new)
        index.close("/timeline/me")
        #expect(index.open.isEmpty && index.count == CopyIndex(rules, root: new).count)
        #expect(try copied().0 == both)
    }

    /// A growing index moves its entries now and then, and otherwise leaves them in place, however many places a node has. Measured by the number of
    /// moves.
    @Test func changesOfALargeIndex_moveFewOfItsPlaces() throws {
        let rules = try RuleSet(parsing: Self.rules)
        let index = CopyIndex(rules, root: .null)
        let count = 20_000
        func write(_ i: Int, _ value: Node) {
            let path = Path(["timeline", Key("f\(i)"), "p"])
            var tree = Node.null
            tree.set(value, at: path)
            index.update([path], old: .null, new: tree)
        }
        var most = 0
        for i in 0..<count {
            let before = i.isMultiple(of: 500) || i == 4_095 || i == 4_096 ? index.moved : nil
            write(i, 1)
            if let before { most = max(most, index.moved - before) }
        }
        // Small entries become shards once; one of the shards may grow at the same time.
        #expect(index.count == count && index.moved < 4 * count && most <= 4_096 + 64, "\(most) at once")
        let grown = index.moved
        for i in 0..<1_000 { write(count + i, 1) }
        for i in 0..<1_000 { write(i, .null) }
        #expect(index.count == count && index.moved - grown < count)
        // The same for many nodes with one place each.
        let wide = CopyIndex(rules, root: .null)
        for i in 0..<count {
            let path = Path(["timeline", "me", Key("p\(i)")])
            var tree = Node.null
            tree.set(1, at: path)
            wide.update([path], old: .null, new: tree)
        }
        #expect(wide.count == count && wide.moved < 4 * count)
    }

    // MARK: Model

    @Test(arguments: Array(1...60) as [UInt64]) func randomWrites_keepCopies_likeTheModel(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let rules = try RuleSet(parsing: Self.rules)
        var tree = Node.null
        let index = CopyIndex(rules, root: tree)
        // An index that lags behind: pending places are processed later, in parts.
        let late = CopyIndex(rules, root: tree)
        var rest: [(open: Path, places: ArraySlice<CopyIndex.Place>)] = []
        var limits = ConsequenceLimits()
        for step in 0..<120 {
            var writes: [(path: Path, value: Node)] = []
            for _ in 0...random.below(3) {
                let (p, u, f) = (Key(random.pick(["p", "q"])), Key(random.pick(["u", "v"])), Key(random.pick(["u", "v", "w"])))
                let post: Node = random.chance(15) ? ["t": 1] : ["user": .string(u.string), "t": .int(Int64(random.below(3)))]
                let write: (Path, Node) = switch random.below(10) {
                case 0, 1, 2: (Path([Key("posts"), p]), random.chance(30) ? .null : post)
                case 3: (Path([Key("posts"), p, Key("t")]), .int(Int64(random.below(4))))
                case 4: (Path([Key("posts"), p, Key("user")]), random.chance(20) ? .null : .string(u.string))
                case 5: (Path([Key("comments"), p, f]), random.chance(40) ? .null : "hi")
                case 6: (Path([Key("timeline"), f, p]), random.chance(60) ? .null : post)
                case 7: (Path([Key("by"), u, p]), random.chance(60) ? .null : ["old": 1])
                case 8: (Path([Key("posts")]), random.chance(50) ? .null : ["p": post])
                default: (Path([Key("friends"), u, f]), random.chance(30) ? .null : random.chance(70) ? "added" : "pending")
                }
                if writes.contains(where: { $0.path.contains(write.0) || write.0.contains($0.path) }) { continue }
                writes.append((write.0, write.1))
            }
            let found = try rules.consequences(of: writes.map(\.path), old: tree, new: writes.after(tree), by: .administrator)
            let known = try rules.consequences(
                of: writes.map(\.path), old: tree, new: writes.after(tree), by: .administrator, copies: index)
            #expect(known.tree == found.tree, "with an index")
            limits.maxIndexed = random.below(8)
            let open = try rules.consequences(
                of: writes.map(\.path), old: tree, new: writes.after(tree), by: .administrator, limits: limits, copies: late)
            #expect(open.tree == found.tree, "with one that does not know all")
            let paths = writes.map(\.path) + known.writes.map(\.path)
            if let place = late.update(paths, old: tree, new: known.tree, atMost: random.below(12)) {
                rest.append((place, try #require(CopyIndex.places(rules, below: place, old: tree, new: known.tree))[...]))
            }
            while let next = rest.first, random.chance(60) {
                late.refresh(next.places.prefix(2), in: known.tree)
                rest[0].places = next.places.dropFirst(2)
                if !rest[0].places.isEmpty { continue }
                late.close(next.open)
                rest.removeFirst()
            }
            #expect(late.open == rest.map(\.open))
            index.update(writes.map(\.path) + known.writes.map(\.path), old: tree, new: known.tree)
            #expect(index.count == Self.places(known.tree))
            let expected = Self.model(tree, writes.after(tree))
            guard found.tree == expected else {
                let sent = writes.map { "\($0.path) \($0.value.json)" }
                Issue.record("step \(step)\n\(tree.json)\n\(sent)\n\(found.tree.json)\n\(expected.json)")
                return
            }
            tree = found.tree
        }
        for (open, places) in rest {
            late.refresh(places, in: tree)
            late.close(open)
        }
        #expect(late.count == index.count)
    }

    /// Places that a `to` with an `each` can match.
    private static func places(_ tree: Node) -> Int {
        let seen = tree.child("seen").children.reduce(0) { sum, room in
            sum + room.1.children.reduce(0) { $0 + $1.1.children.reduce(0) { $0 + $1.1.childCount } }
        }
        return tree.child("timeline").children.reduce(0) { $0 + $1.1.childCount } + seen
    }

    /// Counters first, then each changed post: its copies are created, changed or removed, wherever they are.
    private static func model(_ old: Node, _ candidate: Node) -> Node {
        var tree = candidate
        for (p, post) in candidate.child("posts").children where post.hasChildren {
            tree.set(.int(Int64(candidate.child("comments").child(p).childCount)), at: Path([Key("posts"), p, Key("comments")]))
        }
        let posts = tree.child("posts")
        let keys = Set(old.child("posts").children.map(\.0) + posts.children.map(\.0))
        for p in keys.sorted() {
            let (was, isNow) = (old.child("posts").child(p), posts.child(p))
            if was == isNow { continue }
            func user(_ post: Node) -> Key? { if case .string(let text) = post.child("user") { Key(text.string) } else { nil } }
            var places: [Path] = []
            if was.isNull {
                if let user = user(isNow) {
                    places.append(Path([Key("by"), user, p]))
                    for (f, state) in candidate.child("friends").child(user).children where state == "added" {
                        places.append(Path([Key("timeline"), f, p]))
                    }
                }
            } else {
                let (from, to) = (user(was).map { Path([Key("by"), $0, p]) }, user(isNow).map { Path([Key("by"), $0, p]) })
                places = tree.child("timeline").children.map { Path([Key("timeline"), $0.0, p]) } + [from, to].compactMap { $0 }
                places = places.filter { tree.node(at: $0).exists }
                if isNow.exists, from != to {
                    // A copy moves when its place's name changes. A post that had no place until now gets a copy.
                    if let to, from.map({ tree.node(at: $0).exists }) ?? true { places.append(to) }
                    if let from {
                        tree.set(.null, at: from)
                        places.removeAll { $0 == from }
                    }
                }
            }
            for place in places { tree.set(isNow, at: place) }
        }
        return tree
    }
}
