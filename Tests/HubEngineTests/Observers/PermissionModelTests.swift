import HubEngine
import JSONTree
import SecurityRules
import Testing
import TestSupport

/// Running listens against full evaluation: after every step exactly the permitted listens run. A listen that loses its permission is sent nothing of
/// the write that took it. Rules, writes, identities and slow clients are random.
@Suite(.timeLimit(.minutes(30))) struct PermissionModelTests {
    private struct Listen: Hashable {
        let path: Path
        let query: TreeQuery?
    }

    private final class Reader {
        let client = Client.make()
        /// Observers of windows keep no cache here: their lines do not distinguish the windows of one place.
        let observesWindows: Bool
        var auth = Node.null
        var running: Set<Listen> = []
        var cache = Node.null
        var isSlow = false
        /// Unanswered requests, by number.
        var asked: [String: Asked] = [:]

        enum Asked {
            case listen(Listen)
            case unlisten(Listen)
            case identify(Node)
        }

        init(observesWindows: Bool) { self.observesWindows = observesWindows }
    }

    private static let conditions = [
        "data.child('a').exists()", "!data.hasChildren()", "data.parent().child('b').val() == 1", "data.val() > 0",
        "root.child('d').child(auth.uid).exists()", "root.child('d/' + auth.uid + '/a').val() != 1", "data.hasChildren(['a', 'b'])",
        "(!root.child('d/c').exists() || data.child('a').isNumber())", "data.getPriority() == 1", "data.child('a/b').isString()",
        "data.child(data.child('a').val()).exists()", "root.child('d').child($x).parent().hasChildren(['a'])",
        "(data.exists() ? data.child('a').val() == 1 : root.child('d/b').exists())",
        "data.parent().parent().child('e').child($x).val() != null",
        "(query.limitToFirst <= 2 && data.child('b').exists())", "auth.uid == $x", "auth == null", "root.child('e').val() == $x",
        "data.child(root.child('e').val()).parent().child('a').val() == 1", "root.hasChildren(['d/a/b'])",
        "data.val() == root.child('e').val()",
        "!(data.child('c').val() == auth.uid && root.child('d/a').exists())", "root.child('e').getPriority() != null",
        "data.child('b').val().length == 1",
    ]

    private static func rules(_ random: inout SeededRandom) throws -> RuleSet {
        func condition() -> String {
            var text = conditions.randomElement(using: &random)!
            for _ in 0..<Int.random(in: 0...2, using: &random) {
                let other = conditions.randomElement(using: &random)!
                switch Int.random(in: 0...2, using: &random) {
                case 0: text = "(\(text)) && (\(other))"
                case 1: text = "(\(text)) || (\(other))"
                default: text = "!(\(text)) || (\(other))"
                }
            }
            return text
        }
        let (one, two, three) = (condition(), condition(), condition())
        let top = three.contains("$x") || three.contains("parent()") ? "data.child('a').exists() && auth != null" : three
        return try RuleSet(
            parsing: """
                {"rules":{".write":true,"d":{".read":"\(top)","$x":{".read":"\(one)","$y":{".read":"\(two)"}}},
                "e":{".read":"root.child('d/b').exists()"}}}
                """)
    }

    @Test(arguments: Array(UInt64(1)...6)) func runningListens_areThoseThatTheRulesPermit(seed: UInt64) throws {
        var random = SeededRandom(seed)
        var rules = try Self.rules(&random)
        var limits = EngineLimits()
        limits.turnWork = [4_000, 1, 3][Int(seed % 3)]
        limits.checksAtOnce = [500, 0, 1][Int(seed / 2 % 3)]
        let hub = EngineHarness(rules: rules, limits: limits)
        let readers = (0..<6).map { Reader(observesWindows: $0 >= 4) }
        var truth = Node.null
        var cancellations = 0
        var number: Int64 = 1

        func permits(_ listen: Listen, _ reader: Reader) -> Bool {
            var query = QueryVariables.none
            if let limit = listen.query?.limit { (query.orderByKey, query.limitToFirst) = (true, limit) }
            return rules.allowsRead(listen.path, root: truth, auth: reader.auth, now: 0, query: query)
        }
        func apply(_ line: String, _ reader: Reader, _ told: inout Set<Path>) throws {
            let words = line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
            switch words[0] {
            case "d", "m":
                let base = try Path(parsing: words[1])
                #expect(reader.running.contains { $0.path.contains(base) || base.contains($0.path) } || !reader.asked.isEmpty,
                    "\(line) is for nobody")
                if reader.observesWindows { break }
                told.insert(base)
                if words[0] == "d" {
                    reader.cache.set(try Node(json: words[2]), at: base)
                } else {
                    for (key, value) in try mergeMembers(words[2]) { reader.cache.set(value, at: base.appending(key)) }
                }
            case "cancelled":
                let path = try Path(parsing: words[1])
                let gone = reader.running.filter { $0.path == path && !permits($0, reader) }
                #expect(!gone.isEmpty, "\(line), although it is permitted")
                // Several queries of one place end one by one; all of them must be refused by now.
                if let one = gone.first { reader.running.remove(one) }
                cancellations += 1
            case "ok", "identified", "error":
                switch reader.asked.removeValue(forKey: words[1]) {
                case .listen(let listen):
                    #expect((words[0] == "ok") == permits(listen, reader), "\(listen.path): \(line)")
                    if words[0] == "ok" {
                        reader.running.insert(listen)
                        if !told.contains(listen.path) { reader.cache.set(.null, at: listen.path) }
                    } else {
                        reader.running.remove(listen)
                    }
                case .unlisten(let listen): reader.running.remove(listen)
                case .identify(let auth): reader.auth = auth
                case nil: break
                }
            case "probe": break
            default: Issue.record("unexpected: \(line)")
            }
        }
        func ask(_ reader: Reader, _ asked: Reader.Asked, _ request: Request) {
            // One at a time, so that the state that a held request meets is known.
            guard reader.asked.isEmpty else { return }
            reader.asked["\(number)"] = asked
            hub.database.submit(request, from: reader.client, token: number)
            number += 1
        }

        let keys: [Key] = ["a", "b", "c"]
        func key() -> Key { keys.randomElement(using: &random)! }
        func value(_ depth: Int) -> Node {
            switch Int.random(in: 0..<8, using: &random) {
            case 0, 1: .null
            case 2: .string(key().string)
            case 3: Node.int(Int64.random(in: 0...1, using: &random)).with(priority: 1)
            case 4 where depth < 2, 5 where depth < 2:
                .object((0..<2).map { _ in (key(), value(depth + 1)) }, priority: Bool.random(using: &random) ? 1 : .null)
            default: .int(Int64.random(in: 0...2, using: &random))
            }
        }
        func place() -> Path {
            if Int.random(in: 0..<8, using: &random) == 0 { return "e" }
            return Path([Key("d")] + (0..<Int.random(in: 0...3, using: &random)).map { _ in key() })
        }

        for step in 0..<300 {
            let reader = readers.randomElement(using: &random)!
            switch Int.random(in: 0..<16, using: &random) {
            case 0...3:
                let path = Int.random(in: 0..<10, using: &random) == 0
                    ? "e" : Path([Key("d")] + (0..<Int.random(in: 0...2, using: &random)).map { _ in key() })
                let query = reader.observesWindows
                    ? TreeQuery(index: .key, limit: Int.random(in: 1...3, using: &random), viewFrom: .first) : nil
                let listen = Listen(path: path, query: query)
                if !reader.running.contains(where: { $0.path == path }) {
                    ask(
                        reader, .listen(listen),
                        .observe(path, query: query, style: .patches(tag: query.map { Int64($0.limit ?? 0) }), hash: ""))
                }
            case 4:
                guard let listen = reader.running.randomElement(using: &random) else { break }
                ask(reader, .unlisten(listen), .unobserve(listen.path, style: .patches(tag: listen.query.map { Int64($0.limit ?? 0) })))
            case 5:
                let auth: Node = Bool.random(using: &random) ? ["uid": .string(key().string)] : .null
                ask(reader, .identify(auth), auth.isNull ? .signOut : .identify(Identity(auth: auth)))
            case 6:
                reader.isSlow.toggle()
                hub.database.submit(reader.isSlow ? .congested : .drained, from: reader.client)
            case 7 where step % 2 == 0:
                rules = try Self.rules(&random)
                hub.database.replace(rules)
            case 8:
                let (one, other) = (place(), place())
                if one.contains(other) || other.contains(one) { break }
                let (first, second) = (value(one.depth), value(other.depth))
                hub.database.submit(.write([TreeWrite(one, WriteValue(first)), TreeWrite(other, WriteValue(second))]), from: .make())
                for write in [TreeWrite(one, WriteValue(first)), TreeWrite(other, WriteValue(second))].applied {
                    truth.set(write.value.node, at: write.path)
                }
            case 9:
                let (path, priority): (Path, Node) = (place(), Bool.random(using: &random) ? 1 : .null)
                hub.database.submit(.write([TreeWrite(path, part: .priority, WriteValue(priority))]), from: .make())
                truth.setPriority(priority, at: path)
            default:
                let (path, value) = (place(), value(0))
                hub.database.submit(.put(path, value), from: .make())
                truth.set(value, at: path)
            }
            for reader in readers {
                var told: Set<Path> = []
                for line in hub.take(reader.client) { try apply(line, reader, &told) }
                for listen in reader.running {
                    #expect(permits(listen, reader), "step \(step): \(listen.path) runs, although it is refused")
                }
                guard !reader.isSlow, !reader.observesWindows else { continue }
                for listen in reader.running {
                    #expect(reader.cache.node(at: listen.path) == truth.node(at: listen.path), "step \(step): \(listen.path)")
                }
            }
        }
        #expect(cancellations > 0)
    }
}
