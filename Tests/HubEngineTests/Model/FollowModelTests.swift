import Glibc
import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import Testing
import TestSupport

/// Consequences of writes under random rules files, compared with a model that recomputes them from whole trees. The runs include deploys,
/// account deletions, clock changes and kills between two commits. Each consequence must run exactly once.
///
/// `VIGLA_MODEL_OPERATIONS` is the total number of operations; `VIGLA_MODEL_SEED` selects the seeds, and `VIGLA_MODEL_SEEDS` their number.
@Suite(.timeLimit(.minutes(240))) struct FollowModelTests {
    private static func number(_ name: String) -> UInt64? { getenv(name).flatMap { UInt64(String(cString: $0)) } }
    private static let seeds: [UInt64] = (0..<(number("VIGLA_MODEL_SEEDS") ?? 12)).map { $0 + (number("VIGLA_MODEL_SEED") ?? 1) }
    private static let operations = Int(number("VIGLA_MODEL_OPERATIONS") ?? 1_800) / seeds.count
    /// Operations per hub, before another one with different limits.
    private static let operationsOfHub = 150

    @Test(arguments: seeds) func randomHistory_isAsRecomputed(seed: UInt64) throws {
        var random = SeededRandom(seed)
        var left = Self.operations
        while left > 0 {
            var world = try FollowWorld(&random)
            for step in 0..<min(left, Self.operationsOfHub) { try world.step(step, "seed \(seed), \(Self.operations - left)", &random) }
            left -= Self.operationsOfHub
        }
    }
}

/// A hub and its model, side by side.
private struct FollowWorld {
    private let hub: RestartHarness
    private var model: FollowModel
    private let limits: EngineLimits
    private var rulesText: String
    private let (followsChanges, isCrowded): (Bool, Bool)
    /// The last operation, and the tree before it, for failures.
    private var last = ""
    private var former = Node.null

    init(_ random: inout SeededRandom) throws {
        (followsChanges, isCrowded) = (random.chance(50), random.chance(20))
        let rules = FollowRules(&random, followsChanges: followsChanges, isCrowded: isCrowded)
        var limits = EngineLimits()
        // Beyond these limits the work is done in the background; few nodes expire in a turn.
        (limits.inlineChildren, limits.expiredAtOnce) = (random.pick([3, 1_000]), random.pick([2, 50]))
        (limits.expiringNodes, limits.copyPlaces) = (random.pick([4, 1_000_000]), random.pick([3, 2_000_000]))
        (limits.largeWritePlaces, limits.followedPlaces) = random.pick([(8, 4), (1_000, 1_000)])
        // Counters that are right a moment later change nodes later, too.
        limits.countedAtOnce = followsChanges ? 1_000 : random.pick([1, 1_000])
        // More subscribers, and more marks of each post, than fit into a commit: rows and removals follow in later commits.
        var root = Node.null
        if isCrowded {
            (limits.systemWrites, limits.continuedAtOnce) = (Self.crowd - 10, random.pick([7, 100]))
            root = ["subs": .object((0..<Self.crowd).map { (Key("s\($0)"), ["all": true]) }), "marks": Self.marks(0)]
        }
        self.limits = limits
        rulesText = rules.text
        hub = try RestartHarness(rulesText, root: root, limits: limits, now: 1_000_000_000)
        model = FollowModel(rules, root: root, countedAtOnce: limits.countedAtOnce)
    }

    private var now: Int64 { hub.hub.time.ms }

    mutating func step(_ step: Int, _ name: String, _ random: inout SeededRandom) throws {
        settle()
        let before = hub.batches
        former = hub.snapshot.root
        switch random.below(20) {
        case 0: try advance(ms: Int64(random.below(1_500)), &random)
        case 1: try advance(ms: Int64(random.below(200)), &random)
        case 2:
            last = "restart"
            hub.restart(afterMs: Int64(random.below(1_500)))
            settle()
            model.pass(now: now)
        case 3:
            let rules = FollowRules(&random, followsChanges: followsChanges, isCrowded: isCrowded)
            rulesText = rules.text
            last = "deploy \(rulesText)"
            try hub.deploy(rulesText)
            settle()
            model.deploy(rules, now: now)
            model.pass(now: now)
            mayKill(after: before, &random)
        case 4:
            let uid = random.pick(Self.users)
            last = "account \(uid)"
            deleteAccount(uid)
            settle()
            model.deleteAccount(uid, now: now)
            model.pass(now: now)
        case 5 where random.chance(20):
            last = "clock"
            hub.hub.time.step(seconds: random.chance(50) ? 86_400 : -86_400)
            // The clock is checked with the next write, or within a second.
            _ = model.commit([("marks/clock", .int(now))], by: .client, now: now)
            _ = ask(.put("marks/clock", .int(now)))
            model.pass(now: now)
        default:
            let writes = writes(step, &random)
            last = "write " + writes.map { "\($0.path) \($0.value.json)" }.joined(separator: ", ")
            var trial = model
            let isAdmitted = trial.commit(writes, by: .client, now: now)
            let told = ask(.write(writes.map { TreeWrite($0.path, WriteValue($0.value)) }))
            try #require(told == (isAdmitted ? ["ok 0"] : ["error 0 permission_denied"]), "\(name) \(step): \(last)\n\(told)\n\(rulesText)")
            if isAdmitted { model = trial }
            settle()
            model.pass(now: now)
            if isAdmitted { mayKill(after: before, &random) }
        }
        settle()
        try compare("\(name) step \(step), at \(now): \(last)")
    }

    // MARK: Operations

    private func settle() { hub.settle() }

    /// Advances the time from one due node to the next.
    private mutating func advance(ms: Int64, _ random: inout SeededRandom) throws {
        last = "advance \(ms)"
        let end = now + ms
        while let next = model.next, next.due <= end {
            let before = hub.batches
            hub.advance(ms: max(0, next.due - now))
            settle()
            model.pass(now: now)
            mayKill(after: before - 1, &random)
        }
        hub.advance(ms: end - now)
    }

    /// Kills the process between two of the consequence commits, and starts another.
    private func mayKill(after batches: Int, _ random: inout SeededRandom) {
        guard random.chance(25) else { return }
        settle()
        let all = hub.batches
        guard all > batches else { return }
        hub.restart(keeping: batches + 1 + random.below(all - batches))
        settle()
    }

    private func ask(_ request: Request) -> [String] {
        let client = Client.make()
        let told = hub.hub.ask(client, request)
        settle()
        return told + hub.hub.take(client)
    }

    /// Deletes an account as the server does.
    private func deleteAccount(_ uid: String) {
        let found = Mutex<([AccountWrite], AccountSearch?)>(([], nil))
        repeat {
            hub.hub.database.findAccountData(found.withLock { $0.1 }, of: uid, atMost: 1_000) { writes, search in
                found.withLock { $0 = (writes, search) }
            }
            settle()
            let writes = found.withLock { $0.0 }
            // Where too much follows from all of them, one at a time.
            if !writes.isEmpty { remove(writes, of: uid) }
            for write in writes where write.isDue(in: hub.snapshot.root) { remove([write], of: uid) }
        } while found.withLock { $0.1?.isDone == false }
    }

    private func remove(_ writes: [AccountWrite], of uid: String) {
        let server = Client(lane: 0, dialect: .system, identity: .admin)
        hub.hub.database.submit(.accountData(writes, of: uid), from: server, token: 0)
        settle()
        _ = hub.hub.take(server)
    }

    // MARK: Writes

    private static let crowd = 120
    private static func marks(_ number: Node) -> Node {
        .object((0..<crowd).map { (Key("s\($0)"), .object(posts.map { (Key($0), number) })) })
    }
    private static let users = ["u0", "u1", "u2"]
    private static let posts = ["p0", "p1", "p2", "p3"]

    private func writes(_ step: Int, _ random: inout SeededRandom) -> [FollowModel.Write] {
        func path(_ parts: String...) -> Path { Path(parts.map { Key($0) }) }
        let (user, other, post) = (random.pick(Self.users), random.pick(Self.users), random.pick(Self.posts))
        let comment = random.pick(["c0", "c1", "c2"])
        let number = Node.int(Int64(step))
        func time() -> Node { .int(now + Int64(random.below(2_500)) - 100) }
        func text(_ choices: [String]) -> Node { .string(Text(random.pick(choices))) }
        func aPost() -> Node {
            var node: Node = ["user": .string(Text(random.pick(Self.users))), "number": number]
            if random.chance(40) { node.set(time(), at: "at") }
            if random.chance(40) { node.set(text(["open", "late", "closed"]), at: "state") }
            if random.chance(30) { node.set("m", at: "mail") }
            if random.chance(30) { node.set(.int(Int64(random.below(10))), at: "rank") }
            if random.chance(20) { node.set(time(), at: "since") }
            if random.chance(40) { node.set(text(["x", "y"]), at: "tag") }
            if random.chance(40) { node.set(random.chance(50) ? ["x": 1] : ["x": 1, "y": 1], at: "tags") }
            return node
        }
        func aComment() -> Node { random.chance(20) ? number : ["by": .string(Text(random.pick(Self.users))), "number": number] }
        func many(_ count: Int, _ name: String, _ body: () -> Node) -> Node {
            .object((0..<count).map { (Key("\(name)\($0)"), body()) }.sorted { $0.0 < $1.0 })
        }
        switch random.below(30) {
        case 28: return [(path("tally", user), random.chance(50) ? .null : ["x": number])]
        case 29: return [(path("tally", user, "x"), random.chance(50) ? .null : number)]
        case 0, 1, 2:
            var node = aPost()
            // Counters as stored, or other values.
            if random.chance(15) { node.set(model.root.node(at: path("posts", post, "n")), at: "n") }
            if random.chance(4) { node.set(.int(Int64(random.below(4))), at: "n") }
            return [(path("posts", post), node)]
        case 3: return [(path("posts", post), .null)]
        case 4: return [(path("posts", post, "state"), text(["open", "late", "closed"])), (path("posts", post, "number"), number)]
        case 5: return [(path("posts", post, "at"), random.chance(30) ? .null : time()), (path("posts", post, "number"), number)]
        case 6: return [(path("posts", post, random.pick(["mail", "rank", "since", "number", "same"])), random.chance(40) ? .null : number)]
        case 7: return [(path("posts", post, random.pick(["deep", "made"]), "x"), number)]
        case 8: return [(path("posts", post, "user"), .string(Text(user))), (path("posts", post, "number"), number)]
        // Consequences of a value that replaces many nodes have one common bound.
        case 9 where limits.systemWrites < Self.crowd: return [(path("posts"), .null)]
        case 9: return [(path("posts"), random.chance(20) ? .null : many(1 + random.below(4), "p", aPost))]
        case 10, 11: return [(path("comments", post, comment), random.chance(25) ? .null : aComment())]
        case 12: return [(path("comments", post, comment, "number"), number)]
        case 13: return [(path("comments", post), random.chance(30) ? .null : many(1 + random.below(5), "c", aComment))]
        case 14, 15: return [(path("votes", post, user), random.chance(20) ? .null : .int(Int64(random.below(5)) - 1))]
        case 16: return [(path("votes", post), many(2, "u") { .int(Int64(random.below(3))) })]
        case 17: return [(path("friends", user, other), random.chance(30) ? .null : text(["added", "asked"]))]
        case 18: return [(path("users", user), random.chance(40) ? .null : ["name": number])]
        case 19: return [(path("threads", post), random.chance(30) ? .null : random.chance(50) ? ["at": time()] : ["name": number])]
        case 20 where limits.systemWrites < Self.crowd && random.chance(50): return [(path("marks"), Self.marks(number))]
        case 20: return [(path("marks", user, post), number)]
        // A client writes copies: unchanged, changed, or removed.
        case 21: return [(path("line", user, post), random.chance(50) ? .null : model.root.node(at: path("posts", post)))]
        case 23, 24:
            let member = random.pick(["x", "y", "all"])
            return [(path("subs", user, random.chance(25) ? "mode" : member), random.chance(30) ? .null : "on")]
        case 25: return [(path("subs", user), random.chance(40) ? .null : ["x": 1, "mode": .string(Text(random.pick(["on", "off"])))])]
        case 26: return [(path("inbox", user, post), random.chance(60) ? .null : ["number": number])]
        case 22: return [(random.chance(50) ? path("by", user, post, "number") : path("all", post, "number"), number)]
        default:
            return [
                (path("posts", post), aPost()), (path("comments", post, comment), aComment()),
                (path("votes", random.pick(Self.posts), user), 1), (path("line", user, post), ["number": number]),
            ]
        }
    }

    // MARK: Comparison

    private func compare(_ name: String) throws {
        var (snapshot, rows) = (hub.snapshot, [String: Int]())
        for (_, row) in snapshot.root.child("log").children { rows[row.json, default: 0] += 1 }
        snapshot.root.set(.null, at: "log")
        try #require(snapshot.pendingRows.isEmpty && hub.hub.database.counters.owedRows == 0, "\(name): rows are owed")
        try #require(
            snapshot.root == model.root, "\(name)\nis \(snapshot.root.json)\nnot \(model.root.json)\nwas \(former.json)\n\(rulesText)\n\(limits)")
        try #require(rows == model.rows, "\(name)\nlog \(rows)\nnot \(model.rows)\n\(rulesText)")
        var written: [Path: Int64] = [:]
        snapshot.written.forEach { written[$0] = $1 }
        try #require(
            written == model.written && snapshot.written.open.isEmpty, "\(name)\ntimes \(written)\nnot \(model.written)\n\(rulesText)")
        let stored = hub.stored
        try #require(stored.written == snapshot.written && stored.pendingRows.isEmpty, "\(name): times and rows in the journal")
        var root = stored.root
        root.set(.null, at: "log")
        try #require(root == snapshot.root, "\(name): the journal")
    }
}
