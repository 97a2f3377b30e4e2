import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing
import TestSupport

/// Counts as event streams of REST, and streams of queries with conditions and circles (docs/rest.md).
@Suite(.timeLimit(.minutes(30))) struct CountStreamTests {
    private static let rules = #"""
        {"rules":{".write":true,
          "open":{".read":true,".indexOn":["n"],".geoIndex":{"lat":"lat","lng":"lng"}},
          "room":{".read":"root.child('isOpen').val() == true"},
          "hidden":{".count":"root.child('isOpen').val() == true"},
          "rated":{".geoIndex":{"lat":"lat","lng":"lng"},".count":{"if":"query.near","radius":1000,"snap":100,"perMinute":2}}}}
        """#

    private func server(_ configure: (inout ServerSettings) -> Void = { _ in }) throws -> TestServer {
        let rules = try RuleSet(parsing: Self.rules)
        return try TestServer {
            $0.rules = rules
            configure(&$0)
        }
    }

    private func stream(_ target: String, _ server: TestServer) throws -> RESTPeer {
        let peer = try RESTPeer(server)
        #expect(try peer.stream(target).status == 200)
        return peer
    }

    @Test func countOfAPlace_isPutAtFirst_andWhenItChanges() throws {
        let server = try server()
        let (writer, peer) = (try RESTPeer(server), try stream("/open.json?count=true", server))
        #expect(try peer.event() == #"put {"path":"/","data":0}"#)
        try writer.put("/open/a.json", #"{"n":1}"#)
        #expect(try peer.event() == #"put {"path":"/","data":1}"#)
        // A write that leaves the number unchanged is not sent.
        try writer.put("/open/a/n.json", "2")
        try writer.patch("/open.json", #"{"a":null,"b":1}"#)
        try writer.patch("/open.json", #"{"c":1,"d":1}"#)
        #expect(try peer.event() == #"put {"path":"/","data":3}"#)
        try writer.line("DELETE", "/open.json")
        #expect(try peer.event() == #"put {"path":"/","data":0}"#)
    }

    @Test func countOfAQuery_followsWhatItSelects() throws {
        let server = try server()
        let writer = try RESTPeer(server)
        try writer.put("/open.json", #"{"a":{"n":1,"lat":1,"lng":1},"b":{"n":2,"lat":1,"lng":1.001},"c":{"n":3,"lat":2,"lng":2}}"#)
        let ordered = try stream(#"/open.json?count=true&orderBy="n"&startAt=2"#, server)
        let filtered = try stream("/open.json?count=true&where=n%20%3E%201", server)
        let circled = try stream("/open.json?count=true&near=1,1,1000", server)
        let all = [ordered, filtered, circled]
        #expect(try all.map { try $0.event() } == Array(repeating: #"put {"path":"/","data":2}"#, count: 3))
        try writer.patch("/open.json", #"{"a/n":5,"c/lat":1,"c/lng":1}"#)
        #expect(try all.map { try $0.event() } == Array(repeating: #"put {"path":"/","data":3}"#, count: 3))
        try writer.line("DELETE", "/open/b.json")
        #expect(try all.map { try $0.event() } == Array(repeating: #"put {"path":"/","data":2}"#, count: 3))
    }

    @Test func streamOfConditionsAndOfACircle_hasWhatTheyShow() throws {
        let server = try server()
        let writer = try RESTPeer(server)
        try writer.put("/open.json", #"{"a":{"n":1,"lat":1,"lng":1},"b":{"n":2,"lat":2,"lng":2}}"#)
        let filtered = try stream("/open.json?where=n%20%3E%201", server)
        let circled = try stream("/open.json?near=1,1,1000,2", server)
        #expect(try filtered.event() == #"put {"path":"/","data":{"b":{"lat":2,"lng":2,"n":2}}}"#)
        #expect(try circled.event() == #"put {"path":"/","data":{"a":{"lat":1,"lng":1,"n":1}}}"#)
        try writer.put("/open/a.json", #"{"n":3,"lat":1,"lng":1}"#)
        #expect(try filtered.event() == #"put {"path":"/a","data":{"lat":1,"lng":1,"n":3}}"#)
        #expect(try circled.event() == #"put {"path":"/a","data":{"lat":1,"lng":1,"n":3}}"#)
        // Leaves both circles, enters one.
        try writer.patch("/open.json", #"{"a":null,"b/lat":1,"b/lng":1}"#)
        #expect(try circled.event() == #"patch {"path":"/","data":{"a":null,"b":{"lat":1,"lng":1,"n":2}}}"#)
        #expect(try filtered.event() == #"patch {"path":"/","data":{"a":null,"b":{"lat":1,"lng":1,"n":2}}}"#)
    }

    @Test func countStream_takesThePermissionToCount_andEndsWithIt() throws {
        let server = try server()
        let writer = try RESTPeer(server)
        let asked = ["Accept: text/event-stream"]
        for place in ["hidden", "room"] {
            #expect(try RESTPeer(server).refusal("GET", "/\(place).json?count=true", "", asked) == "401 Permission denied")
        }
        try writer.put("/isOpen.json", "true")
        let streams = try ["hidden", "room"].map { try stream("/\($0).json?count=true", server) }
        #expect(try streams.map { try $0.event() } == Array(repeating: #"put {"path":"/","data":0}"#, count: 2))
        #expect(try RESTPeer(server).refusal("GET", "/hidden.json", "", asked) == "401 Permission denied", "its children take another")
        try writer.put("/isOpen.json", "false")
        for peer in streams {
            #expect(try peer.event() == "cancel null")
            #expect(try peer.event() == nil)
        }
    }

    @Test func countStreamsOfNobody_areOfTheRate() throws {
        let server = try server()
        let asked = ["Accept: text/event-stream"]
        let target = "/rated.json?count=true&near=1,1,"
        #expect(try RESTPeer(server).refusal("GET", target + "999", "", asked) == "401 Permission denied")
        let streams = try (0..<2).map { _ in try stream(target + "1000", server) }
        #expect(try streams.map { try $0.event() } == Array(repeating: #"put {"path":"/","data":0}"#, count: 2))
        #expect(try RESTPeer(server).refusal("GET", target + "1000", "", asked).hasPrefix("429 Without an account 2 counts"))
        // Updates are not charged to the rate.
        try RESTPeer(server).put("/rated/a.json", #"{"lat":1,"lng":1}"#)
        #expect(try streams.map { try $0.event() } == Array(repeating: #"put {"path":"/","data":1}"#, count: 2))
    }

    @Test func countStream_refusesWhatCountsDo() throws {
        let server = try server()
        let peer = try RESTPeer(server)
        let asked = ["Accept: text/event-stream"]
        #expect(try peer.refusal("GET", "/open.json?count=true&shallow=true", "", asked).hasPrefix("400 Mixing 'count'"))
        #expect(try peer.refusal("GET", "/open/.priority.json?count=true", "", asked).hasPrefix("400 A priority"))
        #expect(try peer.refusal("GET", "/open.json?count=true&explain=true", "", asked).hasPrefix("400 An event stream has no 'explain'"))
        try peer.put("/open/a/x.json", "1")
        let unindexed = #"/open.json?count=true&orderBy="x"&startAt=0"#
        #expect(try peer.refusal("GET", unindexed, "", asked).hasPrefix(#"400 Index not defined, add ".indexOn": "x""#))
    }

    @Test func countStreamOfHTTP10_hasNoChunks() throws {
        let server = try server()
        let peer = try RESTPeer(server)
        try peer.socket.send("GET /open.json?count=true&ns=test HTTP/1.0\r\nAccept: text/event-stream\r\n\r\n")
        #expect(try peer.socket.head().head.contains("Connection: close"))
        server.stop()
        #expect(try peer.socket.rest() == "event: put\ndata: {\"path\":\"/\",\"data\":0}\n\n")
    }
}
