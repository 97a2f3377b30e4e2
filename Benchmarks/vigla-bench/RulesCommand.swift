import ArgumentParser
import CLinux
import Glibc
import JSONTree
import SecurityRules

/// The cost of rules decisions: WatchMe's writes under its own rules, the compiler, and the worst cases of values and rules.
///
/// The baseline of a decision is a plain walk of the tree to every place that the write names, in the old and in the new tree: the
/// minimum for any rule. Only the ratio is comparable between machines.
struct RulesBench: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rules", abstract: "CPU per rules decision, against a walk of the same paths.")

    @Option(help: "The rules file of the WatchMe example.") var rules = "Examples/watchme/rules.json"
    @Option(help: "Milliseconds per run.") var milliseconds = 200
    @Option(help: "Only the cases whose title contains this.") var only = ""
    @Option(help: "Runs of each case; the median counts.") var runs = 7

    func validate() throws {
        guard milliseconds > 0, runs > 0 else { throw ValidationError("numbers must be above 0") }
    }

    func run() throws {
        let text = try Self.text(of: rules)
        let town = try Town(rules: text)
        print("decisions (median CPU of \(runs) runs; baseline: a walk of the written paths in both trees)")
        for decision in [town.followTick, town.danger, town.friendRequest] where isChosen(decision.title) { try measure(decision) }
        if isChosen("compile") { try measureCompiling(text) }
        print("worst cases (one decision each)")
        for worst in try WorstCase.all() where isChosen(worst.title) { try measure(worst) }
    }

    private func isChosen(_ title: String) -> Bool { only.isEmpty || title.contains(only) }

    private func measure(_ decision: Decision) throws {
        guard decision.evaluate() else { throw BenchError.unexpected("\(decision.title) was refused") }
        var (walks, decisions): ([Double], [Double]) = ([], [])
        for _ in 0..<runs {
            walks.append(nanoseconds { decision.walk() })
            decisions.append(nanoseconds { _ = decision.evaluate() })
        }
        let (walk, cost) = (walks.median / 1000, decisions.median / 1000)
        print("  \(decision.title): \(cost.fixed(3)) µs, walk \(walk.fixed(3)) µs, ratio \((cost / walk).fixed(2))")
    }

    private func measure(_ worst: WorstCase) throws {
        let cost = (0..<3).map { _ in Self.once { _ = worst.evaluate() } }.median / 1e6
        print("  \(worst.title): \(cost.fixed(3)) ms")
    }

    /// A file of 2,000 lines: the example's blocks repeated under other names.
    private func measureCompiling(_ text: String) throws {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        guard let first = lines.firstIndex(where: { $0.contains("\"rules\"") }), let last = lines.lastIndex(
            where: { $0 == "  }," || $0 == "  }" })
        else { throw BenchError.unexpected("no rules block in \(rules)") }
        let body = lines[(first + 1)..<last].joined(separator: "\n")
        var copies: [String] = []
        var count = 2
        while count < 2000 {
            copies.append("\"copy\(copies.count)\": {\n\(body)\n},")
            count += last - first + 1
        }
        let file = "{\"rules\": {\n" + copies.joined(separator: "\n") + "\n}}"
        let cost = try (0..<runs).map { _ in try Self.once { _ = try RuleSet(parsing: file) } }.median / 1e6
        print("compile \(count) lines, \(file.utf8.count) bytes: \(cost.fixed(1)) ms")
    }

    /// CPU nanoseconds of one call, averaged over as many as fit the time.
    private func nanoseconds(_ body: () -> Void) -> Double {
        var count = 1
        while true {
            let cost = Self.once { for _ in 0..<count { body() } }
            if cost >= Double(milliseconds) * 0.5e6 { return cost / Double(count) }
            count = max(count * 2, Int(Double(count) * Double(milliseconds) * 1e6 / max(cost, 1000)))
        }
    }

    private static func once(_ body: () throws -> Void) rethrows -> Double {
        let start = cpu()
        try body()
        return cpu() - start
    }

    private static func cpu() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
    }

    private static func text(of path: String) throws -> String {
        guard let file = fopen(path, "r") else { throw BenchError.system("open \(path)", errno: errno) }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        while case let count = fread(&chunk, 1, chunk.count, file), count > 0 { bytes += chunk[..<count] }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// One write to decide.
private struct Decision {
    let title: String
    let rules: RuleSet
    let locations: [Path]
    let old: Node
    let new: Node
    let auth: Node

    init(_ title: String, _ rules: RuleSet, _ old: Node, _ writes: [(String, Node)], by user: String) {
        self.title = title
        self.rules = rules
        self.old = old
        locations = writes.map { Path(stringLiteral: $0.0) }
        var new = old
        for (path, value) in writes { new.set(value, at: Path(stringLiteral: path)) }
        self.new = new
        auth = ["uid": .string(user), "provider": "password", "token": ["sub": .string(user), "email_verified": true]]
    }

    func evaluate() -> Bool { rules.allowsWrite(locations, old: old, new: new, auth: auth, now: Town.now) }

    @inline(never)
    func walk() {
        for path in locations {
            if old.node(at: path).isNull { missing &+= 1 }
            if new.node(at: path).isNull { missing &+= 1 }
        }
    }
}

/// Keeps the walk from being optimised away.
nonisolated(unsafe) private var missing = 0

/// 1,000 people with 10 friends each, their follows and posts.
private struct Town {
    static let now: Int64 = 1_790_000_000_000
    private static let people = 1000
    private static let friends = 10

    private let rules: RuleSet
    private let tree: Node

    init(rules text: String) throws {
        rules = try RuleSet(parsing: text)
        var tree = Node.null
        for i in 0..<Self.people {
            tree.set(["name": .string(Self.name(i))], at: Path(stringLiteral: "users/\(Self.name(i))"))
            for k in 1...Self.friends {
                let friend = Self.name((i + k) % Self.people)
                tree.set("added", at: Path(stringLiteral: "users-friends/\(Self.name(i))/\(friend)"))
                tree.set("added", at: Path(stringLiteral: "users-friends/\(friend)/\(Self.name(i))"))
            }
            let follower = Self.name((i + 1) % Self.people)
            tree.set(["current": Self.fix, "status": "active"], at: Path(stringLiteral: "users-follow/\(follower)/\(Self.name(i))"))
        }
        self.tree = tree
    }

    /// A name of the length of account ids.
    private static func name(_ i: Int) -> String { "userWithALongIdentifier" + String(10_000 + i) }

    private static let fix: Node = ["latitude": 37.9553, "longitude": 23.7021, "at": .int(now), "acc": 5]

    /// Two wildcard levels, two cross-look-ups, four validated fields.
    var followTick: Decision {
        Decision("follow write", rules, tree, [("users-follow/\(Self.name(501))/\(Self.name(500))/current", Self.fix)], by: Self.name(500))
    }

    /// A post with its copy and ten timelines, each compared with the post.
    var danger: Decision {
        let post: Node = [
            "user": .string(Self.name(500)), "timestamp": .int(Self.now / 1000), "latitude": 37.9553, "longitude": 23.7021,
            "description": "Kallithea, two men on a scooter", "policeArrived": false,
        ]
        let places = ["posts/p1", "users-posts/\(Self.name(500))/p1"] + (1...Self.friends).map { "timeline/\(Self.name(500 + $0))/p1" }
        return Decision("12-path danger update", rules, tree, places.map { ($0, post) }, by: Self.name(500))
    }

    var friendRequest: Decision {
        let (a, b) = (Self.name(10), Self.name(700))
        return Decision(
            "friend request, 2 paths", rules, tree, [("users-friends/\(a)/\(b)", "requested"), ("users-friends/\(b)/\(a)", "pending")],
            by: a)
    }
}

/// A decision that is as expensive as possible for its kind.
private struct WorstCase {
    let title: String
    let rules: RuleSet
    let value: Node

    private init(_ title: String, _ text: String, _ value: Node) throws {
        (self.title, self.value) = (title, value)
        rules = try RuleSet(parsing: text)
    }

    func evaluate() -> Bool { rules.allowsWrite([.root], old: .null, new: value, auth: .null, now: 0) }

    private static func validating(_ expression: String) -> String { "{\"rules\":{\".write\":true,\".validate\":\"\(expression)\"}}" }

    static func all() throws -> [WorstCase] {
        let long = String(repeating: "a", count: 10_485_760)
        var deep: Node = 1
        for _ in 0..<32 { deep = ["k": deep] }
        let wide = Node.object((0..<100_000).map { (Key("key\($0)"), Node.int(Int64($0))) })
        let chain = (0..<32).reduce("{\".validate\":\"newData.exists()\"}") { inner, i in
            "{\".write\":true,\".validate\":\"newData.hasChildren() && newData.val() != 5\",\"$k\(i)\":\(inner)}"
        }
        let names = (0..<1000).map { "'n\($0)'" }.joined(separator: ", ")
        return [
            try WorstCase("10 MiB string, matches() by table", validating("newData.val().matches(/^(a|b)*c$/)"), .string(long)),
            try WorstCase("10 MiB string, matches() simulated", validating("newData.val().matches(/(a|b)*a(a|b){13}c/)"), .string(long)),
            try WorstCase("10 MiB string, contains() of 5 MiB", validating("newData.child('t').val().contains(newData.child('p').val())"),
                ["t": .string(long), "p": .string(String(long.prefix(5_242_880)) + "b")]),
            try WorstCase("10 MiB string, replace() and length", validating("newData.val().replace('a', 'b').length > 0"), .string(long)),
            try WorstCase("10 MiB string, toUpperCase()", validating("newData.val().toUpperCase() != newData.val()"), .string(long)),
            try WorstCase(
                "10 MiB string, child() of it", validating("!root.child(newData.val()).exists()"),
                .string(String(repeating: "a/", count: 5_242_880))),
            try WorstCase(
                "100,000 children, a rule each",
                "{\"rules\":{\".write\":true,\"$k\":{\".validate\":\"newData.isNumber() && $k.beginsWith('key')\"}}}", wide),
            try WorstCase("100,000 children, none named by a rule", "{\"rules\":{\".write\":true,\"a\":{\".validate\":false}}}", wide),
            try WorstCase("32 levels, a rule each", "{\"rules\":\(chain)}", deep),
            try WorstCase("hasChildren() of 1,000 names", validating("!newData.hasChildren([\(names)])"), wide),
        ]
    }
}
