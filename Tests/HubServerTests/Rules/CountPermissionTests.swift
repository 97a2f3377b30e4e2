import HubEngine
import HubServer
import JSONTree
import Scheduling
import SecurityRules
import TestHub
import Testing
import TestSupport

/// `.count` over real sockets: the observe protocol and REST (docs/rules-extensions.md).
@Suite(.timeLimit(.minutes(30))) struct CountPermissionTests {
    private static let rules = #"""
        {"rules":{".write":true,
          "r":{".read":"auth != null",".geoIndex":{"lat":"lat","lng":"lng","filter":["kind"]},
               ".count":{"if":"query.near || root.child('open').val() == true","radius":1000,"snap":100,"perMinute":4}},
          "plain":{".read":true,".count":"root.child('open').val() == true"},
          "read":{".read":"root.child('open').val() == true"}}}
        """#
    /// Unsigned, of the user `u`: a development hub accepts it.
    private static let token = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiJ1IiwiaWF0IjowLCJleHAiOjM2MDB9."

    private let clock = FakeClock()

    private func server(_ configure: (inout ServerSettings) -> Void = { _ in }) throws -> TestServer {
        let rules = try RuleSet(parsing: Self.rules)
        let server = try TestServer(scheduler: clock.scheduler) {
            $0.rules = rules
            configure(&$0)
        }
        let peer = try RESTPeer(server)
        let reports = #"{"a":{"lat":1,"lng":1,"kind":"x"},"b":{"lat":1,"lng":1.0085,"kind":"y"}}"#
        try peer.put("/.json", #"{"r":\#(reports),"open":false,"plain":{"a":1}}"#)
        return server
    }

    private func connect(_ server: TestServer) throws -> TestSocket {
        let socket = try TestSocket(port: server.port)
        socket.server = server
        try socket.upgrade("/.observe?ns=test")
        return socket
    }

    private func ask(_ request: String, _ socket: TestSocket, _ answers: Int = 1) throws -> [String] {
        try socket.sendText(request)
        return try (0..<answers).map { _ in try socket.text() }
    }

    /// The count around a place, or the code of the refusal.
    private func count(_ query: String, _ socket: TestSocket) throws -> String {
        let answer = try Node(json: ask("{\"id\":1,\"op\":\"count\",\"path\":\"/r\",\"query\":\(query)}", socket)[0])
        let code = answer.node(at: "error/code")
        return code.exists ? code.json : answer.node(at: "ok/count").json
    }

    private func near(_ longitude: Double, _ radius: Double = 1000, _ more: String = "") -> String {
        "{\"near\":{\"lat\":1,\"lng\":\(longitude),\"radius\":\(radius)}\(more)}"
    }

    @Test func countsOfNobody_haveALeastRadius_aGridAndARate() throws {
        let socket = try connect(server())
        #expect(try count(near(1, 999), socket) == #""permission_denied""#)
        #expect(try count(near(1, 1000, #","where":[["lat",">",0]]"#), socket) == #""permission_denied""#)
        #expect(try count(near(1), socket) == "2")
        // 1,006 m and 994 m from the second: all points of one cell get the same count.
        #expect(try [0.99945, 0.99956].map { try count(near($0), socket) } == ["2", "2"])
        #expect(try count(near(1, 1000, #","where":[["kind","==","x"]]"#), socket) == "0", "a filter that singles out a child")
        #expect(try count(near(1), socket) == #""too_many""#)
        clock.advance(seconds: 71)
        #expect(try count(near(1), socket) == "2")
        #expect(try count(near(1, 1000, #","where":[["kind","in",["x","y"]]]"#), socket) == "2")
    }

    @Test func countsOfAUser_haveNoTerms() throws {
        let socket = try connect(server())
        _ = try ask(#"{"id":1,"op":"auth","token":"\#(Self.token)"}"#, socket)
        for _ in 0..<9 { #expect(try count(near(1, 10), socket) == "1") }
        #expect(try count(#"{"near":{"lat":1,"lng":1,"radius":10},"where":[["lat",">",0]]}"#, socket) == "1")
        #expect(try count(#"{"limitToFirst":1}"#, socket) == #""permission_denied""#, "the rule stands for the read rule")
    }

    @Test func liveCounts_andMoves_areOfTheRate() throws {
        let socket = try connect(server())
        func observe(_ id: Int) throws -> String {
            try ask("{\"id\":\(id),\"op\":\"observe\",\"path\":\"/r\",\"events\":[\"count\"],\"query\":\(near(1))}", socket)[0]
        }
        #expect(try observe(2).contains("ok") && socket.text().contains(#""count":2"#))
        #expect(try observe(3).contains("ok") && socket.text().contains(#""count":2"#))
        // A move within the cell changes nothing.
        for _ in 0..<5 { #expect(try ask(#"{"id":4,"op":"move","sub":2,"near":{"lat":1.00001,"lng":1}}"#, socket)[0].contains("ok")) }
        #expect(try ask(#"{"id":5,"op":"move","sub":2,"near":{"lat":1,"lng":1.1}}"#, socket, 2)[1].contains(#""count":0"#))
        #expect(try ask(#"{"id":6,"op":"move","sub":2,"near":{"lat":1,"lng":1}}"#, socket, 2)[1].contains(#""count":2"#))
        #expect(try ask(#"{"id":7,"op":"move","sub":2,"near":{"lat":1,"lng":1.1}}"#, socket)[0].contains("too_many"))
        #expect(try observe(8).contains("too_many"))
        // Updates of a live count are not charged to the rate.
        let told = try ask(#"{"id":9,"op":"set","path":"/r/c","value":{"lat":1,"lng":1}}"#, socket, 3)
        #expect(told.count { $0.contains(#""count":3"#) } == 2, "\(told)")
    }

    @Test func liveCount_endsWithItsPermission() throws {
        let socket = try connect(server())
        _ = try ask(#"{"id":1,"op":"set","path":"/open","value":true}"#, socket)
        for (id, place) in [(2, "plain"), (3, "read")] {
            _ = try ask("{\"id\":\(id),\"op\":\"observe\",\"path\":\"/\(place)\",\"events\":[\"count\"]}", socket, 2)
        }
        // Events of children need the permission to read them.
        _ = try ask(#"{"id":4,"op":"observe","path":"/plain","events":["count","added"]}"#, socket, 3)
        let told = try ask(#"{"id":5,"op":"set","path":"/open","value":false}"#, socket, 3)
        for id in [2, 3] {
            #expect(told.contains(#"{"sub":\#(id),"error":{"code":"permission_denied","message":"Permission denied"}}"#), "\(told)")
        }
        #expect(try ask(#"{"id":6,"op":"set","path":"/plain/b","value":1}"#, socket, 3).count { $0.contains(#""sub":4"#) } == 2)
        #expect(try ask(#"{"id":7,"op":"count","path":"/plain"}"#, socket)[0].contains("permission_denied"))
    }

    @Test func rest_counts() throws {
        let proxies = try TrustedProxies(["127.0.0.1"])
        let server = try server { $0.trustedProxies = proxies }
        let peer = try RESTPeer(server)
        peer.fields = ["X-Forwarded-For: 192.0.2.1"]
        #expect(try peer.get("/r.json?count=true&near=1,1,1000") == "200 2")
        #expect(try peer.get(#"/r.json?count=true&near=1,1,1000&where=kind%20%3D%3D%20x"#) == "200 0")
        #expect(try peer.get("/r.json?count=true&near=1,1,999").hasPrefix("401"))
        #expect(try peer.get("/r.json?near=1,1,1000").hasPrefix("401"))
        for _ in 0..<2 { _ = try peer.get("/r.json?count=true&near=1,1,1000") }
        #expect(try peer.refusal("GET", "/r.json?count=true&near=1,1,1000").hasPrefix("429 Without an account 4 counts"))
        // The first count's ten-second slot is charged until 70 s after its start: a minute, and one slot more.
        #expect(try peer.ask("GET", "/r.json?count=true&near=1,1,1000").head.contains("\r\nRetry-After: 63\r\n"))
        // Another address has its own rate; an administrator has none.
        let other = try RESTPeer(server)
        other.fields = ["X-Forwarded-For: 192.0.2.2"]
        #expect(try other.get("/r.json?count=true&near=1,1,1000") == "200 2")
        let owner = try RESTPeer.owner(server)
        for _ in 0..<5 { #expect(try owner.get("/r.json?count=true") == "200 2") }
        #expect(try owner.get(#"/r.json?count=true&orderBy="$key"&limitToFirst=1"#) == "200 1")
        #expect(try owner.get(#"/r.json?count=true&orderBy="kind"&startAt="y""#) == "200 1")
        #expect(try owner.get("/open.json?count=true") == "200 0" && owner.get("/none.json?count=true&print=pretty") == "200 0\n")
        #expect(try owner.refusal("GET", "/r.json?count=true&shallow=true").hasPrefix("400 Mixing 'count'"))
        #expect(try owner.refusal("GET", "/r.json?count=true&sizeUpTo=5").hasPrefix("400 Mixing 'count'"))
        #expect(try owner.refusal("GET", "/r/.priority.json?count=true").hasPrefix("400 A priority"))
        #expect(try owner.refusal("GET", "/r.json?count=true", "", ["X-Firebase-ETag: true"]).hasPrefix("400 Mixing 'count'"))
    }

    /// Signing out changes the circle that is counted, so the live count ends and has to be requested again.
    @Test func liveCountOfAUser_endsWhenTheAccountDoes() throws {
        let socket = try connect(server())
        _ = try ask(#"{"id":1,"op":"auth","token":"\#(Self.token)"}"#, socket)
        _ = try ask("{\"id\":2,\"op\":\"observe\",\"path\":\"/r\",\"events\":[\"count\"],\"query\":\(near(1.00003))}", socket, 2)
        let told = try ask(#"{"id":4,"op":"auth","token":"\#(Self.nameless)"}"#, socket, 2)
        #expect(told.contains(#"{"sub":2,"error":{"code":"permission_denied","message":"Permission denied"}}"#), "\(told)")
        #expect(try count(near(1.00003), socket) == "2")
    }

    /// A token of the anonymous user `n`.
    private static let nameless = {
        let claims = #"{"sub":"n","iat":0,"exp":3600,"firebase":{"sign_in_provider":"anonymous"}}"#
        return "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0." + Base64.encodeURL(Array(claims.utf8)) + "."
    }()
}
