import Foundation
import JSONTree
import TestSupport

/// One client of a crash test. It writes below its own place with several requests in flight, and knows at any moment what must be stored, and what
/// may be.
final class CrashWriter: @unchecked Sendable {
    // Sendable: used by one thread at a time; rounds are joined before another thread reads it.

    /// The content below the writer's place, and its disconnect writes.
    struct State {
        var tree = Node.null
        /// Places that each count how often the writer was lost while it had registered there.
        var pending: Set<Int> = []

        /// The content after the end, or the crash, of the session.
        var left: Node {
            var tree = tree
            for place in pending.sorted() { Self.increment(&tree, Path([Key("f\(place)")])) }
            return tree
        }

        static func increment(_ tree: inout Node, _ path: Path) {
            if case .int(let old) = tree.node(at: path) { tree.set(.int(old + 1), at: path) } else { tree.set(1, at: path) }
        }

        mutating func apply(_ operation: Operation) {
            switch operation {
            case .set(let path, let node): tree.set(node, at: path)
            case .update(let writes): for write in writes { tree.set(write.node, at: write.path) }
            case .increment(let path): Self.increment(&tree, path)
            case .leave(let place): pending.insert(place)
            case .stay(let place): pending.remove(place)
            case .refused: break
            }
        }
    }

    enum Operation {
        case set(Path, Node)
        case update([(path: Path, node: Node)])
        case increment(Path)
        case leave(Int)
        case stay(Int)
        /// A request that the rules always refuse, with its action, path and body.
        case refused(String, String, String)
    }

    struct Fault: Error { let text: String }

    let number: Int
    /// The acknowledged state.
    private(set) var state = State()
    /// Unanswered requests, in order: any number of the first of these may be stored.
    private(set) var underWay: [(number: Int64, operation: Operation)] = []
    private(set) var acknowledged = 0
    private(set) var refused = 0
    private(set) var sessions = 0
    /// Set when the hub sent a wrong answer.
    private(set) var fault: String?
    private var random = SystemRandomNumberGenerator()
    private var writes = 0

    init(_ number: Int) { self.number = number }

    private var place: String { "/w/\(number)" }
    private func roll(_ sides: Int) -> Int { Int.random(in: 0..<sides, using: &random) }

    /// Writes until the hub is gone.
    func run(url: String, acknowledgement: () -> Void) {
        do {
            while true {
                sessions += 1
                let socket = try RealtimeSocket(url: url)
                for _ in 0..<(20 + roll(100)) {
                    while underWay.count < 6 { try ask(socket) }
                    try read(socket, acknowledgement)
                }
                while !underWay.isEmpty { try read(socket, acknowledgement) }
                try end(socket, url)
            }
        } catch let fault as Fault {
            self.fault = fault.text
        } catch {
            // The hub is gone.
        }
    }

    private func ask(_ socket: RealtimeSocket) throws {
        let operation = next()
        // Recorded first: a request that could not be sent completely is not stored.
        underWay.append((0, operation))
        let sent: Int64
        switch operation {
        case .set(let path, let node): sent = try socket.send("p", "\(place)/\(path.relativeText)", ",\"d\":\(node.json)")
        case .update(let writes):
            let members = writes.map { "\"\($0.path.relativeText)\":\($0.node.json)" }
            sent = try socket.send("m", place, ",\"d\":{\(members.joined(separator: ","))}")
        case .increment(let path): sent = try socket.send("p", "\(place)/\(path.relativeText)", #","d":{".sv":{"increment":1}}"#)
        case .leave(let n): sent = try socket.send("o", "\(place)/f\(n)", #","d":{".sv":{"increment":1}}"#)
        case .stay(let n): sent = try socket.send("oc", "\(place)/f\(n)")
        case .refused(let action, let path, let body): sent = try socket.send(action, path, body)
        }
        underWay[underWay.count - 1].number = sent
    }

    private func read(_ socket: RealtimeSocket, _ acknowledgement: () -> Void) throws {
        let answer = try socket.answer()
        guard let first = underWay.first, first.number == answer.number else {
            throw Fault(text: "answer \(answer.number) is not the next one")
        }
        if case .refused = first.operation {
            guard answer.status == "permission_denied" else { throw Fault(text: "\(first.operation) was answered \(answer.status)") }
            refused += 1
        } else {
            guard answer.status == "ok" else { throw Fault(text: "\(first.operation) was answered \(answer.status): \(answer.text)") }
        }
        underWay.removeFirst()
        state.apply(first.operation)
        acknowledged += 1
        acknowledgement()
    }

    /// Disconnects so that its disconnect writes run, and reconnects once they have.
    private func end(_ socket: RealtimeSocket, _ url: String) throws {
        socket.end()
        guard !state.pending.isEmpty else { return }
        let left = state.left
        let watcher = try RealtimeSocket(url: url)
        for _ in 0..<100_000 where try watcher.ask("g", place).value == left {
            state = State(tree: left)
            return
        }
        throw Fault(text: "what was left for the end is not written: \(left.json)")
    }

    private func next() -> Operation {
        writes += 1
        let value = Node.int(Int64(writes))
        switch roll(12) {
        case 0...2: return .set(path(), roll(3) == 0 ? ["n": value, "text": .string("é\(writes)"), "d": ["deep": value]] : value)
        case 3...5:
            // All have the same number, so that a partial write would show.
            let keys = Set((0..<(2 + roll(3))).map { _ in roll(6) }).sorted()
            return .update(keys.map { (Path([Key("m\($0)"), Key("x")]), value) })
        case 6: return .set(path(), .null)
        case 7: return .increment(Path([Key("count")]))
        case 8: return .leave(roll(3))
        case 9: return roll(2) == 0 ? .stay(roll(3)) : .leave(roll(3))
        case 10: return .set(Path([Key("last")]), value)
        default:
            switch roll(3) {
            case 0: return .refused("p", "/d/\(number)", ",\"d\":\(writes)")
            case 1: return .refused("p", "\(place)/bad", ",\"d\":\(writes)")
            default: return .refused("m", place, ",\"d\":{\"m0/x\":\(writes),\"bad\":\(writes)}")
            }
        }
    }

    private func path() -> Path { Path([Key("k\(roll(5))")] + (roll(2) == 0 ? [] : [Key("below")])) }

    /// Compares the content after the crash with all possible states, and continues from it.
    /// - Returns: how many of the unanswered requests were stored; nil if no state matches.
    func settle(on found: Node) -> Int? {
        var candidate = state
        var match: Int? = candidate.left == found ? 0 : nil
        for (i, entry) in underWay.enumerated() where match == nil {
            candidate.apply(entry.operation)
            if candidate.left == found { match = i + 1 }
        }
        guard let match else { return nil }
        underWay = []
        state = State(tree: found)
        return match
    }

    var expectation: String { "acknowledged \(state.left.json), under way \(underWay.map { "\($0.operation)" })" }
}
