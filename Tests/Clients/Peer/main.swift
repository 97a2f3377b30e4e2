// Runs the lines of a scenario with ViglaClient, and prints the events it gets: see peer.py in the parent folder.

import DispatchNet
import Foundation
import JSONTree
import Synchronization
import ViglaClient
import WireProtocols

/// Writes one line of output, whose members are JSON already.
private let output = Mutex(FileHandle.standardOutput)

func say(_ members: (name: String, json: String)...) {
    let line = "{" + members.map { "\"\($0.name)\":\($0.json)" }.joined(separator: ",") + "}\n"
    output.withLock { $0.write(Data(line.utf8)) }
}

func json(_ text: String) -> String {
    var writer = JSONWriter()
    writer.string(text)
    return String(decoding: writer.bytes, as: UTF8.self)
}

func described(code: String, text: String, member: String? = nil, messages: [String] = [], printed: String) -> String {
    "{\"code\":\(json(code)),\"text\":\(json(text)),\"member\":\(member.map(json) ?? "null"),"
        + "\"messages\":[\(messages.map(json).joined(separator: ","))],\"printed\":\(json(printed))}"
}

func described(_ error: ClientError) -> String {
    guard case .refused(let failure) = error else { return described(code: error.code, text: "\(error)", printed: "\(error)") }
    return described(code: failure.code, text: failure.message, member: failure.member, messages: failure.messages, printed: "\(error)")
}

/// Requests that Swift's types or `ObserveRequest` do not accept are refused with the hub's text, which uses the same parser.
func described(_ fault: ObserveFault) -> String {
    described(.refused(ObserveFailure(code: fault.code.rawValue, message: fault.message, member: fault.member)))
}

/// The client and its observers. Lines run on one thread, in order.
final class Peer {
    private let client: HubClient
    private var observers: [String: ObserverID] = [:]
    private var iterations: [String: Task<Void, Never>] = [:]

    init(_ client: HubClient) { self.client = client }

    func carryOut(_ line: [String: Any]) throws {
        var members = line
        let turn = "\(members.removeValue(forKey: "turn") ?? 0)"
        let call = members.removeValue(forKey: "call") as? String ?? ""
        let name = members.removeValue(forKey: "as") as? String ?? ""
        func done<Answer>(_ text: @escaping @Sendable (Answer) -> String) -> @Sendable (Result<Answer, ClientError>) -> Void {
            { result in
                switch result {
                case .success(let answer): say(("turn", turn), ("ok", text(answer)))
                case .failure(let error): say(("turn", turn), ("error", described(error)))
                }
            }
        }
        switch call {
        case "observe":
            observe(name, iterates: members.removeValue(forKey: "iterate") != nil, try request(call, members))
            say(("turn", turn), ("ok", "null"))
        case "end":
            iterations.removeValue(forKey: name)?.cancel()
            if let observer = observers.removeValue(forKey: name) { client.unobserve(observer) }
            say(("turn", turn), ("ok", "null"))
        case "move":
            let near = members["near"] as? [String: Double] ?? [:]
            guard let observer = observers[name] else { return }
            client.move(observer, latitude: near["lat"] ?? .nan, longitude: near["lng"] ?? .nan, done { (_: Void) in "null" })
        case "lacksIndex":
            if let observer = observers[name] { client.lacksIndex(observer) { say(("turn", turn), ("ok", "\($0)")) } }
        case "auth": client.authenticate(members["token"] as? String ?? "", done { json($0) })
        case "add":
            let by = (members["value"] as? NSNumber)?.doubleValue ?? 0
            client.transaction(try Path(parsing: members["path"] as? String ?? ""), { WriteValue(.number($0.double + by)) }, done { $0.json })
        case "close":
            client.close()
            say(("turn", turn), ("ok", "null"))
        default:
            if let what = members.removeValue(forKey: "what") { members["do"] = what }
            switch try request(call, members) {
            case .get(let path, let query): client.get(path, query: query, done { $0.json })
            case .count(let path, let query): client.count(path, query: query, done { "\($0)" })
            case .set(let write): client.set(write.path, write.value, done { "\($0)" })
            case .update(let path, let writes): client.update(path, writes.map { ($0.path, $0.value) }, done { "\($0)" })
            case .push(let path, let value): client.push(path, value, done { json($0.string) })
            case .remove(let write): client.remove(write.path, done { "\($0)" })
            case .onDisconnect(let leaving): client.onDisconnect(leaving, done { (_: Void) in "null" })
            case .ping: client.ping(done { (_: Void) in "null" })
            case .invalid(let fault): say(("turn", turn), ("error", described(fault)))
            default: say(("turn", turn), ("error", described(code: "bad_request", text: "What is \(call)?", printed: "")))
            }
        }
    }

    private func request(_ op: String, _ members: [String: Any]) throws -> ObserveOperation {
        let data = try JSONSerialization.data(withJSONObject: members.merging(["id": 1, "op": op]) { $1 })
        return try data.withUnsafeBytes { try ObserveRequest.parse($0) }.operation
    }

    private func observe(_ name: String, iterates: Bool, _ operation: ObserveOperation) {
        @Sendable func show(_ observation: Observation) {
            switch observation {
            case .event(let event, let seq):
                say(("observer", json(name)), ("event", "{" + String(decoding: ObservePush(event, seq: seq).rest, as: UTF8.self)))
            case .reset(let seq): say(("observer", json(name)), ("event", "{\"event\":\"reset\",\"seq\":\(seq)}"))
            case .ended(let error): say(("observer", json(name)), ("event", "{\"event\":\"ended\",\"error\":\(described(error))}"))
            }
        }
        switch operation {
        case .observe(let path, let events, let query, let maxHz, _) where iterates:
            let sequence = client.events(of: path, events, query: query, maxHz: maxHz)
            iterations[name] = Task {
                do {
                    for try await observation in sequence { show(observation) }
                    show(.ended(.closed))
                } catch { show(.ended(error as? ClientError ?? .badAnswer("\(error)"))) }
            }
        case .observe(let path, let events, let query, let maxHz, _):
            observers[name] = client.observe(path, events, query: query, maxHz: maxHz, show)
        case .invalid(let fault): say(("observer", json(name)), ("event", "{\"event\":\"ended\",\"error\":\(described(fault))}"))
        default: break
        }
    }
}

extension Node {
    fileprivate var double: Double {
        switch self {
        case .int(let number): Double(number)
        case .double(let number): number
        default: 0
        }
    }
}

let group = try EventLoopGroup(count: 1)
let address = try HubURL(CommandLine.arguments[1]).address
let client = HubClient(address, on: group.next()) { state in
    switch state {
    case .connecting: say(("state", "\"connecting\""))
    case .connected: say(("state", "\"connected\""))
    case .waiting(let error, _): say(("state", "\"waiting\""), ("error", described(error)))
    case .credentialRefused(let failure): say(("state", "\"credentialRefused\""), ("error", described(.refused(failure))))
    case .closed: say(("state", "\"closed\""))
    }
}
if let options = try JSONSerialization.jsonObject(with: Data(CommandLine.arguments[2].utf8)) as? [String: Any],
    let token = options["token"] as? String {
    client.authenticate(token)
}
client.connect()
let peer = Peer(client)
while let line = readLine() {
    if let members = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any] { try peer.carryOut(members) }
}
client.close()
// In a later turn of the loop, when the last output has been sent.
_ = client.loop.schedule(afterMs: 1, everyMs: nil) { exit(0) }
dispatchMain()
