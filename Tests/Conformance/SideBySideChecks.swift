import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing
import TestSupport

/// An SDK listen, a REST stream and an observer on one query of one place get the same changes in the same order.
@Suite(.timeLimit(.minutes(30))) struct SideBySideChecks {
    private static let rules = try? RuleSet(parsing: #"{"rules":{".read":true,".write":true,"k":{".indexOn":"n"}}}"#)

    @Test(arguments: [1, 2, 3, 4] as [UInt64]) func threeClients_seeOneHistory(seed: UInt64) throws {
        let server = try TestServer { $0.rules = Self.rules ?? .denyAll }
        let writer = try RESTPeer(server)
        try writer.put("/k.json", #"{"a":{"n":1},"b":{"n":2},"c":{"n":3},"d":{"n":4}}"#)
        let (sdk, stream, socket) = (try Peer(server), try RESTPeer(server), try TestSocket(port: server.port))
        var (bySDK, byStream, byObserver) = (History(), History(), History())

        for line in try sdk.listen("k", #"{"i":"n","l":3,"vf":"r"}"#, tag: 1).dropLast() { try bySDK.take(line, below: "k") }
        try stream.stream(#"/k.json?orderBy="n"&limitToLast=3"#)
        try byStream.takeEvent(#require(try stream.event()))
        try socket.upgrade("/.observe?ns=test")
        try socket.sendText(
            #"{"id":1,"op":"observe","path":"/k","events":["value","added","changed","moved","removed"],"query":{"orderBy":"n","limitToLast":3}}"#)
        _ = try socket.text()

        var random = SeededRandom(seed)
        for _ in 0..<150 {
            let key = random.pick(["a", "b", "c", "d", "e", "f"])
            switch random.below(5) {
            case 0: try writer.line("DELETE", "/k/\(key).json")
            case 1: try writer.patch("/k.json", #"{"\#(key)/n":\#(random.below(9)),"g/n":\#(random.below(9))}"#)
            case 2: try writer.put("/k/\(key)/other.json", "\(random.below(3))")
            default: try writer.put("/k/\(key)/n.json", "\(random.below(9))")
            }
        }
        try writer.put("/k.json", #"{"last":{"n":100}}"#)

        let last = #"{"last":{"n":100}}"#
        while bySDK.states.last != last { try bySDK.take(try sdk.line(), below: "k") }
        while byStream.states.last != last { try byStream.takeEvent(#require(try stream.event())) }
        while byObserver.states.last != last { try byObserver.takeFrame(try socket.text()) }
        #expect(bySDK.states.count > 60)
        #expect(bySDK.states == byStream.states)
        #expect(bySDK.states == byObserver.states)
        #expect(byObserver.list == ["last"], "the list that its events of children made")
    }
}

/// The states of the query that one client has seen, each once.
private struct History {
    private var now = Node.null
    private(set) var states: [String] = []
    /// Keys in the order of the query, built from child events only.
    private(set) var list: [String] = []

    private mutating func record() { if states.last != now.json { states.append(now.json) } }

    /// `d#1 k/a {…}` and `m#1 k {"a/n":1}` of the realtime protocol.
    mutating func take(_ line: String, below place: Path) throws {
        let words = line.split(separator: " ", maxSplits: 2).map(String.init)
        let path = try Path(parsing: words[1]).dropping(place.depth)
        try set(words[2], at: path, isMerge: words[0].hasPrefix("m"))
    }

    /// `put {"path":"/a","data":…}` and `patch` of a stream.
    mutating func takeEvent(_ line: String) throws {
        let (name, text) = (String(line.prefix { $0 != " " }), String(line.drop { $0 != " " }.dropFirst()))
        let data = try #require(try RawObject(text)["data"]).text
        let path = try Path(parsing: try #require(try RawObject(text)["path"]).string)
        try set(data, at: path, isMerge: name == "patch")
    }

    private mutating func set(_ text: String, at path: Path, isMerge: Bool) throws {
        if isMerge {
            for (name, member) in try RawObject(text).members {
                now.set(try Node(json: member.text), at: path.appending(try Path(parsing: name)))
            }
        } else {
            now.set(try Node(json: text), at: path)
        }
        record()
    }

    /// Events of the observe protocol: child events update the list, value events add a state.
    mutating func takeFrame(_ text: String) throws {
        let event = try RawObject(text)
        guard let name = event["event"]?.string else { return }
        if name == "value" {
            now = try Node(json: try #require(event["value"]).text)
            #expect(Set(list) == Set(now.children.map(\.key.string)), "the events of children come before the value")
            return record()
        }
        let key = try #require(event["key"]).string
        switch name {
        case "removed": list.removeAll { $0 == key }
        case "added", "moved":
            list.removeAll { $0 == key }
            let previous = event["prev"].flatMap { $0.text == "null" ? nil : $0.string }
            let at = try previous.map { try #require(list.firstIndex(of: $0)) + 1 } ?? 0
            list.insert(key, at: at)
        default: #expect(list.contains(key))
        }
    }
}
