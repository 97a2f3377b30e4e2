import Journal
import JSONTree
import SecurityRules
import Synchronization
import Testing
import TestSupport

@testable import HubEngine

/// Clients of several hubs write while messages and writers are lost at random. Each acknowledged write is stored once, a refused one is not stored,
/// and each client's writes keep their order.
@Suite(.timeLimit(.minutes(30))) struct ForwardingModelTests {
    private final class RetryingClient {
        let client: Client
        let hub: HubNetwork.Hub
        let name: String
        var asked = 0
        var answers: [Int: String] = [:]

        init(_ hub: HubNetwork.Hub, _ number: Int) {
            (client, self.hub, name) = (hub.client(lane: number % 2), hub, "c\(number)")
        }

        func collect() {
            for line in hub.harness.linesSoFar(client) {
                let parts = line.split(separator: " ").map(String.init)
                guard parts.count >= 2, let token = Int(parts[1]) else { continue }
                if answers[token] != nil { Issue.record("\(name) was answered twice: \(line)") }
                answers[token] = parts[0] == "error" ? parts[2] : parts[0]
            }
        }
    }

    @Test(arguments: 1...12 as ClosedRange<UInt64>)
    func writes_areStoredOnce_inTheirOrder_whateverIsLost(seed: UInt64) {
        var random = SeededRandom(seed)
        func roll(_ sides: Int) -> Int { Int.random(in: 0..<sides, using: &random) }
        var limits = EngineLimits()
        (limits.forwardMs, limits.forwardAgainMs) = (12_000, 500)
        let faults = HubNetwork.NetworkFaults(loses: roll(30), doubles: roll(30), delays: roll(20))
        let net = HubNetwork(limits: limits, seed: seed, faults: faults)
        var writer = net.addWriter()
        let followers = [net.addFollower(), net.addFollower()]
        let clients = (0..<5).map { RetryingClient(followers[$0 % 2], $0) }
        for _ in 0..<60 {
            for client in clients where roll(2) == 0 {
                for _ in 0...roll(4) {
                    let number = client.asked
                    client.asked += 1
                    // A new row for each run of the request, a sum, and the last value.
                    let push = WriteValue.adding(1)
                    let writes = [
                        TreeWrite(["times", Key(client.name), Key("n\(number)")].path, push),
                        TreeWrite(["sum"].path, push),
                        TreeWrite(["last", Key(client.name)].path, WriteValue(.int(Int64(number)))),
                    ]
                    client.hub.harness.database.submit(.write(writes), from: client.client, token: Int64(number))
                }
            }
            net.settle()
            switch roll(12) {
            case 0:
                // The last request may have been stored, or not.
                if roll(2) == 0 { writer.log.isSilent.store(true, ordering: .relaxed) } else { writer.log.kill() }
                for client in clients where roll(2) == 0 {
                    let number = client.asked
                    client.asked += 1
                    let one = WriteValue.adding(1)
                    client.hub.harness.database.submit(.write([
                        TreeWrite(["times", Key(client.name), Key("n\(number)")].path, one), TreeWrite(["sum"].path, one),
                        TreeWrite(["last", Key(client.name)].path, WriteValue(.int(Int64(number)))),
                    ]), from: client.client, token: Int64(number))
                }
                net.settle()
                net.kill(writer)
                if roll(2) == 0 { net.advance(ms: Int64(roll(3_000))) }
                writer = net.addWriter()
            case 1, 2: net.advance(ms: Int64(250 * roll(8)))
            default: break
            }
            for client in clients { client.collect() }
        }
        net.faults = HubNetwork.NetworkFaults()
        net.advance(ms: 15_000)
        for client in clients { client.collect() }
        let root = writer.root
        var sum: Int64 = 0
        for client in clients {
            #expect(client.answers.count == client.asked, "\(client.name) seed \(seed)")
            var last: Int64?
            for number in 0..<client.asked {
                let times = root.node(at: ["times", Key(client.name), Key("n\(number)")].path)
                let count = if case .int(let count) = times { count } else { Int64(0) }
                sum += count
                #expect(count <= 1, "\(client.name) \(number) was carried out \(count) times, seed \(seed)")
                if client.answers[number] == "ok" {
                    #expect(count == 1, "\(client.name) \(number) was acknowledged and is lost, seed \(seed)")
                }
                if count == 1 { last = Int64(number) }
            }
            #expect(root.node(at: ["last", Key(client.name)].path) == (last.map { .int($0) } ?? .null), "\(client.name) seed \(seed)")
            #expect(client.answers.values.filter { $0 == "ok" }.count > client.asked / 2)
        }
        #expect(root.node(at: "sum") == .int(sum))
        for follower in followers { #expect(follower.root == root) }
    }
}
