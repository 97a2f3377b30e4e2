import Journal
import JSONTree
import SecurityRules
import Testing
import TestSupport

@testable import HubEngine

/// The binary messages between hubs.
@Suite(.timeLimit(.minutes(30))) struct PeerMessageTests {
    private static let place = PeerMessage.StreamPosition(joined: 7, term: .max, stream: 3, index: 9, base: 1 << 40)

    private static var failure: Failure {
        var failure = Failure(.overBudget, "slow down", ruleMessages: ["a", "ü"])
        failure.retryAfterMs = 12
        return failure
    }

    private static let messages: [PeerMessage] = [
        .join, .probe(place), .requests(place, [1, 2, 3]), .part(place, number: 1, of: 3, [9]), .state(place),
        .replies(term: 5, [
            PeerReply(number: 1, outcome: .done, sequence: 2), PeerReply(number: 2, outcome: .stale, sequence: 3),
            PeerReply(number: 3, outcome: .failed(failure), sequence: 4),
        ]),
    ]

    private static var requests: [PeerRequest] {
        let deferred = WriteValue.Deferred(path: "seen", target: .value, value: .timestamp)
        var value = WriteValue(.object([("seen", 0), ("n", 1.5)]).with(priority: "p"))
        value.deferred = [deferred]
        let write = TreeWrite("a/b", value)
        let priority = TreeWrite("c", part: .priority, WriteValue(3))
        var exchange = Exchange("a", .write([write]), ifHash: "h", wantsContent: true)
        exchange.isImport = true
        let anonymous = PeerRequest.Facts(session: "s", identity: .anonymous, address: nil)
        let user = PeerRequest.Facts(
            session: "sé", identity: Identity(auth: .object([("uid", "ana"), ("token", .object([("x", true)]))]), isAdmin: true),
            address: "::1")
        let all: [PeerRequest.Work] = [
            .write([write, priority], Condition("a", hash: "")), .write([], nil), .exchange(exchange, [write]), .onDisconnect([write]),
            .cancelOnDisconnect(.root), .system([priority], .expiry), .identify, .end(session: "other"),
        ]
        return all.enumerated().map { PeerRequest(UInt64($0), of: 4, $0 % 2 == 0 ? anonymous : user, $1) }
    }

    @Test func messages_comeAsTheyWereSent() {
        for message in Self.messages { #expect(PeerMessage(decoding: message.encoded) == message) }
        #expect(PeerMessage(decoding: []) == nil && PeerMessage(decoding: [1, 2, 3]) == nil)
    }

    @Test func requests_comeAsTheyWereSent() throws {
        let bytes = Self.requests.flatMap(\.encoded)
        let read = try #require(PeerRequest.all(in: bytes))
        #expect(read.count == Self.requests.count)
        // Decoded messages encode to the same bytes again.
        #expect(read.flatMap(\.encoded) == bytes)
        guard case .write(let writes, let condition) = read[0].work, case .exchange(let exchange, _) = read[2].work else {
            Issue.record("other kinds")
            return
        }
        #expect(writes.count == 2 && writes[0].value.deferred.count == 1 && writes[1].part == .priority && condition?.hash == "")
        #expect(exchange.ifHash == "h" && exchange.wantsContent && exchange.isImport && read[1].facts.address == "::1")
        #expect(read[1].facts.identity.isAdmin && !read[0].facts.identity.isAdmin)
    }

    @Test(arguments: 1...4 as ClosedRange<UInt64>) func anyBytes_areReadOrRefused(seed: UInt64) {
        var random = SeededRandom(seed)
        func roll(_ sides: Int) -> Int { Int.random(in: 0..<sides, using: &random) }
        let seeds = Self.messages.map(\.encoded) + [PeerMessage.requests(Self.place, Self.requests.flatMap(\.encoded)).encoded]
        for _ in 0..<20_000 {
            var bytes = seeds[roll(seeds.count)]
            for _ in 0...roll(4) {
                switch roll(4) {
                case 0 where !bytes.isEmpty: bytes[roll(bytes.count)] = UInt8(roll(256))
                case 1: bytes.removeLast(min(bytes.count, roll(20)))
                case 2: bytes.insert(contentsOf: (0..<roll(8)).map { _ in UInt8(roll(256)) }, at: roll(bytes.count + 1))
                default: if !bytes.isEmpty { bytes[roll(bytes.count)] ^= UInt8(1 << roll(8)) }
                }
            }
            if case .requests(_, let body)? = PeerMessage(decoding: bytes) { _ = PeerRequest.all(in: body) }
            _ = PeerRequest.all(in: bytes)
        }
    }

    @Test func damagedMessages_changeNothing() {
        let net = HubNetwork()
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let client = follower.client()
        #expect(follower.ask(client, .put("a", 1)) == ["ok 0"])
        var random = SeededRandom(9)
        for message in Self.messages + [.requests(Self.place, Self.requests.flatMap(\.encoded))] {
            for hub in [writer, follower] {
                for sender in [writer.hub, follower.hub, 5] {
                    var bytes = message.encoded
                    hub.deliver(.message(bytes, from: sender))
                    bytes[Int.random(in: 0..<bytes.count, using: &random)] ^= 4
                    hub.deliver(.message(bytes, from: sender))
                }
            }
        }
        net.settle()
        #expect(follower.ask(client, .put("a", 2), .get("a")) == ["ok 0", "value 1 2"])
        #expect(writer.root == follower.root)
    }
}
