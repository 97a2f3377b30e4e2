import HubEngine
import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing

/// Conditions and circles over real sockets: the observe protocol and REST (docs/observe-protocol.md).
@Suite(.timeLimit(.minutes(30))) struct LiveQueryTests {
    private static let rules = #"""
        {"rules":{".write":true,
          "p":{".read":true,".indexOn":["status","rating"],".geoIndex":{"lat":"at/lat","lng":"at/lng"}},
          "plain":{".read":true},
          "own":{".read":"query.where.owner==auth.uid"},
          "around":{".read":"query.radius<=500",".geoIndex":{"lat":"lat","lng":"lng"}}}}
        """#

    private func server(_ configure: (inout ServerSettings) -> Void = { _ in }) throws -> TestServer {
        let rules = try RuleSet(parsing: Self.rules)
        return try TestServer {
            $0.rules = rules
            configure(&$0)
        }
    }

    private func connect(_ server: TestServer) throws -> TestSocket {
        let socket = try TestSocket(port: server.port)
        try socket.upgrade("/.observe?ns=test")
        return socket
    }

    private func ask(_ request: String, _ socket: TestSocket, _ answers: Int = 1) throws -> [String] {
        try socket.sendText(request)
        return try (0..<answers).map { _ in try socket.text() }
    }

    @Test func stream_ofConditions_tellsWhatComesAndGoes() throws {
        let server = try server()
        let (writer, peer) = (try RESTPeer(server), try RESTPeer(server))
        try writer.put("/p.json", #"{"a":{"status":"open","rating":1},"b":{"status":"shut"}}"#)
        try peer.stream(#"/p.json?where=%5B%5B%22status%22,%22%3D%3D%22,%22open%22%5D%5D"#)
        #expect(try peer.event() == #"put {"path":"/","data":{"a":{"rating":1,"status":"open"}}}"#)
        try writer.put("/p/b/status.json", #""open""#)
        #expect(try peer.event() == #"put {"path":"/b","data":{"status":"open"}}"#)
        try writer.put("/p/c.json", #"{"status":"shut"}"#)
        try writer.patch("/p.json", #"{"a/status":"shut","b/rating":2}"#)
        #expect(try peer.event() == #"patch {"path":"/","data":{"a":null,"b":{"rating":2,"status":"open"}}}"#)
        try writer.put("/p.json", "null")
        #expect(try peer.event() == #"put {"path":"/b","data":null}"#)
    }

    @Test func rest_getsWhatConditionsAndCirclesSelect() throws {
        let server = try server()
        let peer = try RESTPeer(server)
        try peer.put("/p.json", #"{"a":{"rating":4,"at":{"lat":1,"lng":1}},"b":{"rating":2,"at":{"lat":1.001,"lng":1}},"c":{"rating":5,"at":{"lat":91,"lng":1}}}"#)
        let open = try peer.get(#"/p.json?where=%5B%5B%22rating%22,%22%3E%3D%22,4%5D%5D"#)
        #expect(open.hasSuffix(#"{"a":{"at":{"lat":1,"lng":1},"rating":4},"c":{"at":{"lat":91,"lng":1},"rating":5}}"#), "\(open)")
        let near = try peer.get("/p.json?near=1,1,50")
        #expect(near.hasSuffix(#"{"a":{"at":{"lat":1,"lng":1},"rating":4}}"#), "\(near)")
        let refused = try peer.refusal("GET", "/plain.json?near=1,1,50")
        let line = #"400 No points defined, add ".geoIndex": {"lat": "lat", "lng": "lng"}, or where children have their degrees, for path "/plain", to the rules"#
        #expect(refused == line)
    }

    @Test func get_tellsTheOrderAndTheDistances() throws {
        let server = try server()
        let socket = try connect(server)
        _ = try ask(#"{"id":1,"op":"set","path":"/p","value":{"a":{"at":{"lat":1,"lng":1}},"b":{"at":{"lat":1,"lng":1.001}},"c":1}}"#, socket)
        let answer = try ask(#"{"id":2,"op":"get","path":"/p","query":{"near":{"lat":1,"lng":1.001,"limit":5}}}"#, socket)
        #expect(answer == [#"{"id":2,"ok":{"keys":["b","a"],"distances":[0,111.18],"value":{"a":{"at":{"lat":1,"lng":1}},"b":{"at":{"lat":1,"lng":1.001}}}}}"#])
        #expect(try ask(#"{"id":3,"op":"count","path":"/p","query":{"near":{"lat":1,"lng":1,"radius":50}}}"#, socket) == [#"{"id":3,"ok":{"count":1}}"#])
    }

    @Test func rules_canDemandAConditionOrASmallCircle() throws {
        let server = try server()
        let socket = try connect(server)
        _ = try ask(#"{"id":1,"op":"set","path":"/around/a","value":{"lat":1,"lng":1}}"#, socket)
        func code(_ answer: String) throws -> String { try Node(json: answer).node(at: "error/code").json }
        let wide = try ask(#"{"id":2,"op":"count","path":"/around","query":{"near":{"lat":1,"lng":1,"radius":501}}}"#, socket)[0]
        #expect(try code(wide) == #""permission_denied""#)
        #expect(try ask(#"{"id":3,"op":"count","path":"/around","query":{"near":{"lat":1,"lng":1,"radius":500}}}"#, socket) == [#"{"id":3,"ok":{"count":1}}"#])
        #expect(try code(ask(#"{"id":4,"op":"get","path":"/around"}"#, socket)[0]) == #""permission_denied""#)
        #expect(try code(ask(#"{"id":5,"op":"get","path":"/own","query":{"where":[["owner","==","u"]]}}"#, socket)[0]) == #""permission_denied""#)
        _ = try ask(#"{"id":6,"op":"auth","token":"\#(Self.token)"}"#, socket)
        #expect(try ask(#"{"id":7,"op":"get","path":"/own","query":{"where":[["owner","==","u"]]}}"#, socket)[0].contains(#""keys":[]"#))
        // The permission is checked for a moved circle as well.
        _ = try ask(#"{"id":8,"op":"observe","path":"/around","events":["added","removed"],"query":{"near":{"lat":1,"lng":1,"radius":500}}}"#, socket, 2)
        let moved = try ask(#"{"id":9,"op":"move","sub":8,"near":{"lat":2,"lng":1}}"#, socket, 2)
        #expect(moved[1].contains(#""event":"removed","key":"a""#) && moved[1].contains(#""why":"left""#), "\(moved)")
    }

    /// Unsigned, of the user `u`: a development hub accepts it.
    private static let token = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiJ1IiwiaWF0IjowLCJleHAiOjM2MDB9."

    @Test func movedCircle_endsWhenThePermissionIsTaken() throws {
        let rules = #"{"rules":{".write":true,"c":{".read":"root.child('members').child(auth.uid).exists()",".geoIndex":{"lat":"lat","lng":"lng"}}}}"#
        let server = try server { $0.rules = (try? RuleSet(parsing: rules)) ?? .denyAll }
        let socket = try connect(server)
        _ = try ask(#"{"id":1,"op":"set","path":"/","value":{"members":{"u":true},"c":{"a":{"lat":1,"lng":1}}}}"#, socket)
        _ = try ask(#"{"id":2,"op":"auth","token":"\#(Self.token)"}"#, socket)
        _ = try ask(#"{"id":3,"op":"observe","path":"/c","events":["added","ready"],"query":{"near":{"lat":1,"lng":1,"radius":500}}}"#, socket, 3)
        _ = try ask(#"{"id":4,"op":"move","sub":3,"near":{"lat":1.001,"lng":1}}"#, socket)
        let told = try ask(#"{"id":5,"op":"set","path":"/","value":{"c":{"b":{"lat":1,"lng":1}}}}"#, socket, 2)
        #expect(told.contains(#"{"sub":3,"error":{"code":"permission_denied","message":"Permission denied"}}"#), "\(told)")
    }

    @Test func rareMatches_areLookedForBesideTheQueue() throws {
        let server = try server()
        let socket = try connect(server)
        let values = (0..<3_000).map { #""k\#($0)":{"rating":\#($0),"size":1}"# }.joined(separator: ",")
        _ = try ask("{\"id\":1,\"op\":\"set\",\"path\":\"/p\",\"value\":{\(values)}}", socket)
        let query = #"{"where":[["size","==",2]],"orderBy":"rating","limitToLast":1}"#
        #expect(try ask(#"{"id":2,"op":"get","path":"/p","query":\#(query)}"#, socket) == [#"{"id":2,"ok":{"keys":[],"value":null}}"#])
    }

    @Test func limits_ofWhatIsShown_haveTwoSides() throws {
        let server = try server { $0.limits.engine.liveQueryChildren = 3 }
        let socket = try connect(server)
        let values = (0..<4).map { #""k\#($0)":{"rating":\#($0),"at":{"lat":1,"lng":\#($0)}}"# }.joined(separator: ",")
        _ = try ask("{\"id\":1,\"op\":\"set\",\"path\":\"/p\",\"value\":{\(values)}}", socket)
        func code(_ query: String) throws -> String {
            let answer = try Node(json: ask(#"{"id":2,"op":"get","path":"/p","query":\#(query)}"#, socket)[0])
            return answer.child("ok").exists ? "ok \(answer.node(at: "ok/keys").childCount)" : answer.node(at: "error/code").json
        }
        #expect(try code(#"{"where":[["rating",">=",1]]}"#) == "ok 3")
        #expect(try code(#"{"where":[["rating",">=",0]]}"#) == #""too_big""#)
        #expect(try code(#"{"where":[["rating",">=",0]],"orderBy":"rating","limitToFirst":3}"#) == "ok 3")
        #expect(try code(#"{"where":[["rating",">=",0]],"orderBy":"rating","limitToFirst":4}"#) == #""too_big""#)
        #expect(try code(#"{"near":{"lat":1,"lng":0,"radius":230000}}"#) == "ok 3")
        #expect(try code(#"{"near":{"lat":1,"lng":0,"radius":340000}}"#) == #""too_big""#)
        // A count shows none of the children, so its bound is on those visited (NearSearchTests).
        func counted(_ query: String) throws -> String { try ask(#"{"id":3,"op":"count","path":"/p","query":\#(query)}"#, socket)[0] }
        #expect(try counted(#"{"near":{"lat":1,"lng":0,"limit":1},"where":[["rating",">=",0]]}"#) == #"{"id":3,"ok":{"count":1}}"#)
        #expect(try counted(#"{"near":{"lat":1,"lng":0,"radius":230000},"where":[["rating",">=",1]]}"#) == #"{"id":3,"ok":{"count":2}}"#)
        #expect(try counted(#"{"near":{"lat":1,"lng":0,"radius":340000}}"#) == #"{"id":3,"ok":{"count":4}}"#)
    }

    @Test func withoutAnIndex_aLargePlaceIsRefused_withTheLineThatIsMissing() throws {
        let server = try server { $0.limits.engine.unindexedChildren = 3 }
        let socket = try connect(server)
        let values = (0..<4).map { #""k\#($0)":{"rating":\#($0),"size":1}"# }.joined(separator: ",")
        for place in ["p", "plain"] { _ = try ask("{\"id\":1,\"op\":\"set\",\"path\":\"/\(place)\",\"value\":{\(values)}}", socket) }
        let refused = try ask(#"{"id":2,"op":"get","path":"/plain","query":{"where":[["rating","==",1]]}}"#, socket)[0]
        #expect(refused.contains(#""code":"missing_index""#) && refused.contains(#".indexOn\": \"rating\""#), "\(refused)")
        #expect(try ask(#"{"id":3,"op":"get","path":"/p","query":{"where":[["rating","==",1],["size","==",1]]}}"#, socket)[0].contains(#""keys":["k1"]"#))
        #expect(try ask(#"{"id":4,"op":"get","path":"/p","query":{"where":[["size","==",1]]}}"#, socket)[0].contains("missing_index"))
    }

    @Test func unknownObserversAndPlainOnes_cannotMove() throws {
        let server = try server()
        let socket = try connect(server)
        #expect(try ask(#"{"id":1,"op":"move","sub":9,"near":{"lat":1,"lng":1}}"#, socket)[0].contains("unknown_sub"))
        _ = try ask(#"{"id":2,"op":"observe","path":"/p"}"#, socket, 2)
        #expect(try ask(#"{"id":3,"op":"move","sub":2,"near":{"lat":1,"lng":1}}"#, socket)[0].contains("bad_request"))
    }
}
