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
    private final class Asker {
        let client: Client
        let hub: HubNetwork.Hub
        let name: String
        var asked = 0
        var answers: [Int: String] = [:]

        init(_ hub: HubNetwork.Hub, _ number: Int) {
            (client, self.hub, name) = (hub.client(lane: number % 2), hub, "c\(number)")
        }

        func hear() {
            for line in hub.harness.told(client) {
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
        let weather = HubNetwork.Weather(loses: roll(30), doubles: roll(30), delays: roll(20))
        let net = HubNetwork(limits: limits, seed: seed, weather: weather)
        var writer = net.addWriter()
        let followers = [net.addFollower(), net.addFollower()]
        let askers = (0..<5).map { Asker(followers[$0 % 2], $0) }
        for _ in 0..<60 {
            for asker in askers where roll(2) == 0 {
                for _ in 0...roll(4) {
                    let number = asker.asked
                    asker.asked += 1
                    // A new row for each run of the request, a sum, and the last value.
                    let push = WriteValue.adding(1)
                    let writes = [
                        TreeWrite(["times", Key(asker.name), Key("n\(number)")].path, push),
                        TreeWrite(["sum"].path, push),
                        TreeWrite(["last", Key(asker.name)].path, WriteValue(.int(Int64(number)))),
                    ]
                    asker.hub.harness.database.submit(.write(writes), from: asker.client, token: Int64(number))
                }
            }
            net.settle()
            switch roll(12) {
            case 0:
                // The last request may have been stored, or not.
                if roll(2) == 0 { writer.log.isSilent.store(true, ordering: .relaxed) } else { writer.log.kill() }
                for asker in askers where roll(2) == 0 {
                    let number = asker.asked
                    asker.asked += 1
                    let one = WriteValue.adding(1)
                    asker.hub.harness.database.submit(.write([
                        TreeWrite(["times", Key(asker.name), Key("n\(number)")].path, one), TreeWrite(["sum"].path, one),
                        TreeWrite(["last", Key(asker.name)].path, WriteValue(.int(Int64(number)))),
                    ]), from: asker.client, token: Int64(number))
                }
                net.settle()
                net.kill(writer)
                if roll(2) == 0 { net.advance(ms: Int64(roll(3_000))) }
                writer = net.addWriter()
            case 1, 2: net.advance(ms: Int64(250 * roll(8)))
            default: break
            }
            for asker in askers { asker.hear() }
        }
        net.weather = HubNetwork.Weather()
        net.advance(ms: 15_000)
        for asker in askers { asker.hear() }
        let root = writer.root
        var sum: Int64 = 0
        for asker in askers {
            #expect(asker.answers.count == asker.asked, "\(asker.name) seed \(seed)")
            var last: Int64?
            for number in 0..<asker.asked {
                let times = root.node(at: ["times", Key(asker.name), Key("n\(number)")].path)
                let count = if case .int(let count) = times { count } else { Int64(0) }
                sum += count
                #expect(count <= 1, "\(asker.name) \(number) was carried out \(count) times, seed \(seed)")
                if asker.answers[number] == "ok" {
                    #expect(count == 1, "\(asker.name) \(number) was acknowledged and is lost, seed \(seed)")
                }
                if count == 1 { last = Int64(number) }
            }
            #expect(root.node(at: ["last", Key(asker.name)].path) == (last.map { .int($0) } ?? .null), "\(asker.name) seed \(seed)")
            #expect(asker.answers.values.filter { $0 == "ok" }.count > asker.asked / 2)
        }
        #expect(root.node(at: "sum") == .int(sum))
        for follower in followers { #expect(follower.root == root) }
    }
}
