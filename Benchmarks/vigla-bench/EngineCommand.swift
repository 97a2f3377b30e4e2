import ArgumentParser
import HubEngine
import JSONTree

/// The database queue's work for one write, without sockets: its growth with the number of children and of clients, and the memory of a
/// stored leaf.
struct Engine: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Engine time of a write beside 10³…10⁶ children with live queries, and memory per stored leaf.")

    @Option(help: "Numbers of children, separated by commas.") var children = "1000,10000,100000,1000000"
    @Option(help: "Writes of each kind.") var writes = 20_000
    @Option(help: "Clients that share one query.") var clients = 1_000

    @Option(help: "One part only: places, sharing or posts.") var only: Part?

    enum Part: String, ExpressibleByArgument, CaseIterable { case places, sharing, posts }

    private var counts: [Int] { children.split(separator: ",").map { Int($0) ?? 0 } }

    func validate() throws {
        guard counts.allSatisfy({ $0 > 0 }), !counts.isEmpty else { throw ValidationError("--children: numbers") }
        guard writes > 0, clients > 0 else { throw ValidationError("numbers must be above 0") }
    }

    func run() throws {
        if only ?? .places == .places {
            print("children  bytes/leaf  append µs  change µs  overwrite µs   (one observer of limitToLast(50) by child \"at\", kept by "
                + "its index)")
            for count in counts { try place(of: count) }
        }
        if only ?? .sharing == .sharing { try sharing() }
        if only ?? .posts == .posts { try copying() }
    }

    /// A post that is copied to each of many friends.
    private func copying() throws {
        for count in [100, 500] {
            let friends = try PostToFriends(count)
            for _ in 0..<20 { _ = try friends.post() }
            let times = try (0..<200).map { _ in try friends.post() / 1000 }.sorted()
            let mean = times.reduce(0, +) / Double(times.count)
            print(
                "a post with copies for \(count) friends: mean \(mean.fixed(2)) ms, p50 \(times[100].fixed(2)), p99 \(times[198].fixed(2))")
        }
    }

    /// One place of `count` records of five fields, with its queries.
    private func place(of count: Int) throws {
        let before = HeapMeter.allocated
        let root: Node = ["m": .object((0..<count).lazy.map { (Self.key($0), Self.record($0)) })]
        let perLeaf = Double(HeapMeter.allocated - before) / Double(count * 5)
        let hub = try BenchHub(root: root)
        hub.observe("m", TreeQuery(index: .child("at"), limit: 50, viewFrom: .last), tags: [1])
        var random = SystemRandomNumberGenerator()
        let append = hub.microsPerWrite(writes) { i in
            TreeWrite(Path([Key("m"), Self.key(count + i)]), WriteValue(Self.record(count + i)))
        }
        let change = hub.microsPerWrite(writes) { _ in
            let at = Int.random(in: 0..<count, using: &random)
            return TreeWrite(
                Path([Key("m"), Self.key(at), Key("at")]), WriteValue(.int(Int64.random(in: 0..<1_000_000_000, using: &random))))
        }
        let overwrite = hub.microsPerWrite(writes) { i in
            let at = Int.random(in: 0..<count, using: &random)
            return TreeWrite(Path([Key("m"), Self.key(at)]), WriteValue(Self.record(i)))
        }
        print(
            "\(String(count).padded(8))  \(perLeaf.fixed(0).padded(10))  \(append.fixed(2).padded(9))  \(change.fixed(2).padded(9))  "
                + "\(overwrite.fixed(2).padded(12))")
    }

    /// Many clients with the same query: how often a change is computed, and the extra cost compared with one client.
    private func sharing() throws {
        let root: Node = ["m": .object((0..<10_000).lazy.map { (Self.key($0), Self.record($0)) })]
        for (title, count, tags) in [
            ("1 client", 1, 1), ("\(clients) clients, one tag", clients, 1), ("\(clients) clients, a tag each", clients, clients),
        ] {
            let hub = try BenchHub(root: root)
            hub.observe("m", TreeQuery(index: .child("at"), limit: 50, viewFrom: .last), tags: (0..<count).map { Int64($0 % tags + 1) })
            let changes = hub.format.changes
            let micros = hub.microsPerWrite(1_000) { i in
                TreeWrite(Path([Key("m"), Self.key(10_000 + i)]), WriteValue(Self.record(2_000_000 + i)))
            }
            print("\(title): \(micros.fixed(2)) µs per write, its window worked out \(Double(hub.format.changes - changes) / 1_000) times")
        }
    }

    /// A push id's length, ascending.
    private static func key(_ i: Int) -> Key { Key("-Nx\(10_000_000_000_000_000 + i)") }

    private static func record(_ i: Int) -> Node {
        ["author": .string("user-\(i % 5000)"), "at": .int(1_700_000_000_000 + Int64(i)), "lat": .double(
            37.9 + Double(i % 1000) / 10_007), "on": .bool(i % 2 == 0),
            "text": .string("message \(i)")]
    }
}
