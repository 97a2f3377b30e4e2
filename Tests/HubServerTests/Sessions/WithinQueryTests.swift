import HubEngine
import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing

/// Boxes and polygons over real sockets: the observe protocol and REST (docs/observe-protocol.md).
@Suite(.timeLimit(.minutes(30))) struct WithinQueryTests {
    private static let rules = #"""
        {"rules":{".write":true,
          "p":{".read":true,".indexOn":["rating"],".geoIndex":{"lat":"at/lat","lng":"at/lng"}},
          "plain":{".read":true},
          "around":{".read":"query.radius<=500",".geoIndex":{"lat":"lat","lng":"lng"}},
          "counted":{".geoIndex":{"lat":"lat","lng":"lng"},".count":{"if":"true","radius":1000}},
          "zones":{"open":{".read":true},"shut":{".read":false}}}}
        """#

    private func connect() throws -> (TestServer, TestSocket) {
        let rules = try RuleSet(parsing: Self.rules)
        let server = try TestServer { $0.rules = rules }
        let socket = try TestSocket(port: server.port)
        try socket.upgrade("/.observe?ns=test")
        return (server, socket)
    }

    private func ask(_ request: String, _ socket: TestSocket, _ answers: Int = 1) throws -> [String] {
        try socket.sendText(request)
        return try (0..<answers).map { _ in try socket.text() }
    }

    private func code(_ answer: String) throws -> String { try Node(json: answer).node(at: "error/code").json }

    @Test func viewport_showsWhatComesAndGoes_andMoves() throws {
        let (server, socket) = try connect()
        defer { withExtendedLifetime(server) {} }
        let children = #"{"a":{"at":{"lat":1,"lng":179.99}},"b":{"at":{"lat":1,"lng":-179.99}},"c":{"at":{"lat":1,"lng":1}}}"#
        _ = try ask(#"{"id":1,"op":"set","path":"/p","value":\#(children)}"#, socket)
        let (events, box) = (#"["added","changed","moved","removed","ready"]"#, #"{"south":0,"west":179,"north":2,"east":-179}"#)
        let observe = #"{"id":2,"op":"observe","path":"/p","events":\#(events),"query":{"within":\#(box)}}"#
        #expect(try ask(observe, socket, 4).dropFirst() == [
            #"{"sub":2,"seq":1,"event":"added","key":"a","value":{"at":{"lat":1,"lng":179.99}}}"#,
            #"{"sub":2,"seq":1,"event":"added","key":"b","value":{"at":{"lat":1,"lng":-179.99}}}"#, #"{"sub":2,"seq":1,"event":"ready"}"#,
        ])
        // Across the antimeridian it stays, and has only changed.
        let across = try ask(#"{"id":3,"op":"set","path":"/p/a/at/lng","value":-179.5}"#, socket, 2)
        #expect(across[0] == #"{"sub":2,"seq":2,"event":"changed","key":"a","value":{"at":{"lat":1,"lng":-179.5}}}"#)
        let left = try ask(#"{"id":4,"op":"set","path":"/p/b/at/lng","value":170}"#, socket, 2)
        #expect(left[0] == #"{"sub":2,"seq":3,"event":"removed","key":"b","value":{"at":{"lat":1,"lng":-179.99}},"why":"left"}"#)
        let moved = try ask(#"{"id":5,"op":"move","sub":2,"within":[0,-10,2,171]}"#, socket, 4)
        #expect(moved == [
            #"{"id":5,"ok":{"seq":3}}"#,
            #"{"sub":2,"seq":3,"event":"removed","key":"a","value":{"at":{"lat":1,"lng":-179.5}},"why":"left"}"#,
            #"{"sub":2,"seq":3,"event":"added","key":"b","value":{"at":{"lat":1,"lng":170}}}"#,
            #"{"sub":2,"seq":3,"event":"added","key":"c","value":{"at":{"lat":1,"lng":1}}}"#,
        ])
        #expect(try code(ask(#"{"id":6,"op":"move","sub":2,"near":{"lat":1,"lng":1}}"#, socket)[0]) == #""bad_request""#)
        #expect(try code(ask(#"{"id":7,"op":"move","sub":2,"within":[[0,0],[1,1],[0,1],[1,0]]}"#, socket)[0]) == #""bad_request""#)
        let gone = try ask(#"{"id":8,"op":"remove","path":"/p/c"}"#, socket, 2)
        #expect(gone[0].hasSuffix(#""why":"deleted"}"#))
    }

    @Test func rest_getsStreamsAndCountsRegions() throws {
        let (server, _) = try connect()
        let (peer, other) = (try RESTPeer(server), try RESTPeer(server))
        let children = #"{"a":{"rating":4,"at":{"lat":1,"lng":1}},"b":{"rating":2,"at":{"lat":1.5,"lng":1}},"c":{"at":{"lat":91,"lng":1}}}"#
        try peer.put("/p.json", children)
        #expect(try peer.get("/p.json?within=0,0,1.2,2").hasSuffix(#"{"a":{"at":{"lat":1,"lng":1},"rating":4}}"#))
        #expect(try peer.get("/p.json?within=%5B%5B0,0%5D,%5B3,1%5D,%5B0,2%5D%5D&orderBy=%22rating%22&limitToFirst=1").contains(#"{"b":"#))
        #expect(try peer.get("/p.json?within=0,0,2,2&count=true").hasSuffix("2"))
        #expect(try peer.get("/p.json?within=%7B%22lat%22:1,%22lng%22:1,%22radius%22:5%7D&count=true").hasSuffix("1"))
        #expect(try peer.refusal("GET", "/p.json?within=0,0,2").hasPrefix("400 within: must be south,west,north,east"))
        #expect(try peer.refusal("GET", "/p.json?within=2,0,1,2") == "400 within.south: must not be greater than north")
        #expect(try peer.refusal("GET", "/plain.json?within=0,0,1,2").hasPrefix("400 No points defined"))
        try other.stream("/p.json?within=0,0,1.2,2")
        #expect(try other.event() == #"put {"path":"/","data":{"a":{"at":{"lat":1,"lng":1},"rating":4}}}"#)
        try peer.put("/p/b/at/lat.json", "1.1")
        #expect(try other.event() == #"put {"path":"/b","data":{"at":{"lat":1.1,"lng":1},"rating":2}}"#)
        try peer.put("/p/a/at/lat.json", "1.3")
        #expect(try other.event() == #"put {"path":"/a","data":null}"#)
    }

    @Test func storedRegion_isReadAtTheStart_withItsOwnPermission() throws {
        let (server, socket) = try connect()
        defer { withExtendedLifetime(server) {} }
        let ring = #"[{"lat":0,"lng":0},{"lat":3,"lng":1},{"lat":0,"lng":2}]"#
        let pushed = #"{"-N1":{"lat":4,"lng":0},"-N2":{"lat":6,"lng":1},"-N3":{"lat":4,"lng":2}}"#
        let open = #"{"ring":\#(ring),"bow":[[0,0],[1,1],[0,1],[1,0]],"pushed":\#(pushed)}"#
        let children = #"{"a":{"at":{"lat":1,"lng":1}},"b":{"at":{"lat":5,"lng":1}}}"#
        let root = #"{"p":\#(children),"zones":{"open":\#(open),"shut":{"ring":\#(ring)}}}"#
        _ = try ask(#"{"id":1,"op":"set","path":"/","value":\#(root)}"#, socket)
        func keys(_ within: String) throws -> String {
            try ask(#"{"id":2,"op":"get","path":"/p","query":{"within":"\#(within)"}}"#, socket)[0]
        }
        #expect(try keys("zones/open/ring").contains(#""keys":["a"]"#))
        #expect(try keys("zones/open/pushed").contains(#""keys":["b"]"#))
        func fault(_ within: String) throws -> Node {
            try Node(json: ask(#"{"id":3,"op":"observe","path":"/p","query":{"within":"\#(within)"}}"#, socket)[0]).node(at: "error")
        }
        #expect(try fault("zones/shut/ring").child("code") == "permission_denied")
        #expect(try fault("zones/open/none").child("message") == #""within": zones/open/none: is not stored: nothing is there."#)
        #expect(try fault("zones/open/bow").child("message").json.contains("zones/open/bow: crosses or touches itself"))
        // A running query keeps the region that it was started with; a move to the same place reads it again.
        _ = try ask(#"{"id":4,"op":"observe","path":"/p","events":["added","removed"],"query":{"within":"zones/open/ring"}}"#, socket, 2)
        _ = try ask(#"{"id":5,"op":"set","path":"/zones/open/ring","value":[[4,0],[6,1],[4,2]]}"#, socket)
        let moved = try ask(#"{"id":6,"op":"move","sub":4,"within":"zones/open/ring"}"#, socket, 3)
        #expect(moved[1].contains(#""event":"removed","key":"a""#) && moved[2].contains(#""event":"added","key":"b""#), "\(moved)")
        #expect(try code(ask(#"{"id":7,"op":"move","sub":4,"within":"zones/shut/ring"}"#, socket)[0]) == #""permission_denied""#)
    }

    @Test func rulesThatBoundCircles_boundRegions() throws {
        let (server, socket) = try connect()
        defer { withExtendedLifetime(server) {} }
        _ = try ask(#"{"id":1,"op":"set","path":"/around/a","value":{"lat":1,"lng":1}}"#, socket)
        // 1° is 111 km: half of the diagonals are 472 and 629 m.
        let (small, large) = (#"{"south":1,"west":1,"north":1.006,"east":1.006}"#, #"{"south":1,"west":1,"north":1.008,"east":1.008}"#)
        #expect(try ask(#"{"id":2,"op":"count","path":"/around","query":{"within":\#(small)}}"#, socket) == [#"{"id":2,"ok":{"count":1}}"#])
        #expect(try code(ask(#"{"id":3,"op":"count","path":"/around","query":{"within":\#(large)}}"#, socket)[0]) == #""permission_denied""#)
        let thin = #"[[1,1],[1.1,1],[1.0001,1.0001]]"#
        #expect(try code(ask(#"{"id":4,"op":"get","path":"/around","query":{"within":\#(thin)}}"#, socket)[0]) == #""permission_denied""#)
        _ = try ask(#"{"id":5,"op":"observe","path":"/around","events":["added"],"query":{"within":\#(small)}}"#, socket, 2)
        #expect(try code(ask(#"{"id":6,"op":"move","sub":5,"within":\#(large)}"#, socket)[0]) == #""permission_denied""#)
        _ = try ask(#"{"id":9,"op":"set","path":"/counted/a","value":{"lat":1,"lng":1}}"#, socket)
        // Where circles are bounded for callers without an account, regions are not counted for them.
        #expect(try code(ask(#"{"id":7,"op":"count","path":"/counted","query":{"within":\#(large)}}"#, socket)[0]) == #""permission_denied""#)
        let circle = #"{"id":8,"op":"count","path":"/counted","query":{"near":{"lat":1,"lng":1,"radius":1000}}}"#
        #expect(try ask(circle, socket) == [#"{"id":8,"ok":{"count":1}}"#])
    }
}
