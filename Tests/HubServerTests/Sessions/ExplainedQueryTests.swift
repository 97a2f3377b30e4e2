import HubEngine
import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing

/// The starting point of queries (`explain`), and indexes of set members, over real sockets.
@Suite(.timeLimit(.minutes(30))) struct ExplainedQueryTests {
    private static let rules = #"""
        {"rules":{".write":true,
          "p":{".read":true,".indexOn":["status","rating","types/*"],".geoIndex":{"lat":"lat","lng":"lng"}},
          "own":{".read":"query.where.owner=='u'",".indexOn":["owner","status"]},
          "few":{".read":true}}}
        """#

    private func connect(
        children: Int = 40, in places: [String] = ["p"], _ configure: (inout ServerSettings) -> Void = { _ in }
    ) throws -> (TestServer, TestSocket) {
        let rules = try RuleSet(parsing: Self.rules)
        let server = try TestServer {
            $0.rules = rules
            $0.limits.engine.inlineChildren = 20
            configure(&$0)
        }
        let socket = try TestSocket(port: server.port)
        socket.server = server
        try socket.upgrade("/.observe?ns=test")
        let values = (0..<children).map { i in
            let types = i % 10 == 0 ? #"{"cafe":true,"bar":{"since":1}}"# : #"{"bar":true}"#
            let owner = i < 3 ? "u" : "v"
            return #""k\#(i)":{"status":"s\#(i % 4)","rating":\#(i),"owner":"\#(owner)","size":\#(i % 2),"types":\#(types),"lat":1,"lng":\#(i)}"#
        }.joined(separator: ",")
        for place in places { _ = try ask("{\"id\":1,\"op\":\"set\",\"path\":\"/\(place)\",\"value\":{\(values)}}", socket) }
        return (server, socket)
    }

    private func ask(_ request: String, _ socket: TestSocket, _ answers: Int = 1) throws -> [String] {
        try socket.sendText(request)
        return try (0..<answers).map { _ in try socket.text() }
    }

    private func explained(_ query: String, at place: String = "p", by op: String = "get", _ socket: TestSocket) throws -> String {
        let request = "{\"id\":2,\"op\":\"\(op)\",\"path\":\"/\(place)\",\"explain\":true,\"query\":\(query)}"
        let answer = try Node(json: ask(request, socket)[0])
        return (answer.node(at: "ok/explain").exists ? answer.node(at: "ok/explain") : answer).json
    }

    @Test func query_startsFromWhatPromisesTheFewest_andSaysSo() throws {
        let (server, socket) = try connect()
        for (query, expected) in [
            (#"{"where":[["status","==","s1"]]}"#, #"{"children":40,"index":"status","looks":10,"start":"index"}"#),
            (#"{"where":[["status","==","s1"],["rating",">=",38]]}"#, #"{"children":40,"index":"rating","looks":2,"start":"index"}"#),
            (#"{"where":[["size","==",1]]}"#, #"{"children":40,"looks":40,"start":"children"}"#),
            (
                #"{"where":[["size","==",1]],"orderBy":"rating","startAt":30}"#,
                #"{"children":40,"index":"rating","looks":10,"start":"order"}"#
            ),
            (#"{"orderBy":"rating","limitToLast":3}"#, #"{"children":40,"index":"rating","looks":3,"start":"order"}"#),
            (#"{"orderBy":"size","limitToLast":3}"#, #"{"children":40,"declared":false,"index":"size","looks":3,"start":"order"}"#),
            (#"{"limitToFirst":2}"#, #"{"children":40,"index":".key","looks":2,"start":"order"}"#),
            (#"{"near":{"lat":1,"lng":0,"radius":120000}}"#, #"{"children":40,"index":".geoIndex","looks":2,"start":"points"}"#),
            (#"{"near":{"lat":1,"lng":0,"radius":500000,"limit":1}}"#, #"{"children":40,"index":".geoIndex","looks":1,"start":"points"}"#),
        ] {
            #expect(try explained(query, socket) == expected, "\(query)")
            // The explanation is the same for every caller of the same query.
            _ = try ask("{\"id\":3,\"op\":\"observe\",\"path\":\"/p\",\"events\":[\"ready\"],\"query\":\(query)}", socket, 2)
            let again = try explained(query, socket)
            #expect(again == expected, "\(query)")
            _ = try ask(#"{"id":4,"op":"unobserve","sub":3}"#, socket)
        }
        #expect(try explained("null", socket).contains("bad_request"))
        let plain = try ask(#"{"id":5,"op":"get","path":"/p/k1/rating","explain":true}"#, socket)
        #expect(plain == [#"{"id":5,"ok":{"explain":{"children":0,"start":"place"},"value":1}}"#])
        let peer = try RESTPeer(server)
        #expect(try peer.get("/p.json?explain=true") == #"200 {"children":40,"start":"place"}"#)
        #expect(try peer.get("/p.json?explain=true&count=true&where=status%20%3D%3D%20s1")
            == #"200 {"children":40,"index":"status","looks":10,"start":"index"}"#)
        #expect(try peer.refusal("GET", "/own.json?explain=true").hasPrefix("401"))
        #expect(try peer.refusal("GET", "/p.json?explain=true&shallow=true").hasPrefix("400 Mixing 'explain'"))
        #expect(try peer.refusal("GET", "/p.json?explain=true", "", ["Accept: text/event-stream"]).hasPrefix("400 An event stream"))
    }

    @Test func observe_tellsWhatIsHeld_andThenItsEvents() throws {
        let (_, socket) = try connect()
        let query = #"{"where":[["status","==","s1"]],"orderBy":"rating","limitToLast":2}"#
        let told = try ask(
            #"{"id":3,"op":"observe","path":"/p","events":["ready"],"explain":true,"query":\#(query)}"#, socket, 2)
        let answer = try Node(json: told[0])
        #expect(answer.node(at: "ok/explain/held") == 10 && answer.node(at: "ok/explain/start") == "index", "\(told)")
        #expect(told[1].contains(#""event":"ready""#))
        let counted = #"{"where":[["status","==","s1"]]}"#
        let count = try ask(
            #"{"id":4,"op":"observe","path":"/p","events":["count"],"explain":true,"since":null,"query":\#(counted)}"#, socket, 2)
        let explained = try Node(json: count[0]).node(at: "ok/explain").json
        #expect(explained == #"{"children":40,"held":0,"index":"status","looks":10,"start":"index"}"#)
    }

    /// The index with the fewest candidates reveals something about other users' children, as does their number. A user with access only to
    /// his own gets neither.
    @Test func start_andNumbers_areToldToReadersOfTheWholePlace() throws {
        let (server, socket) = try connect(in: ["own"])
        // "none" has fewer children than the owner, "s1" more: the answer is the same.
        for status in ["s1", "none"] {
            let query = "{\"where\":[[\"owner\",\"==\",\"u\"],[\"status\",\"==\",\"\(status)\"]]}"
            #expect(try explained(query, at: "own", socket) == #"{"declared":true}"#, "\(status)")
            #expect(try explained(query, at: "own", by: "count", socket) == #"{"declared":true}"#, "\(status)")
        }
        #expect(try explained(#"{"where":[["status","==","s1"]]}"#, at: "own", socket).contains("permission_denied"))
        let peer = try RESTPeer(server)
        #expect(try peer.get("/own.json?explain=true&where=owner%20%3D%3D%20u") == #"200 {"declared":true}"#)
        let owner = try RESTPeer.owner(server)
        let all = try owner.get("/own.json?explain=true&where=owner%20%3D%3D%20u")
        #expect(all == #"200 {"children":40,"index":"owner","looks":3,"start":"index"}"#)
    }

    @Test func members_areFoundByTheirIndex() throws {
        let (_, socket) = try connect { $0.limits.engine.unindexedChildren = 30 }
        let has = try explained(#"{"where":[["types","has","cafe"]]}"#, socket)
        #expect(has == #"{"children":40,"index":"types/cafe","looks":4,"start":"index"}"#)
        #expect(try ask(#"{"id":5,"op":"get","path":"/p","query":{"where":[["types","has","cafe"]]}}"#, socket)[0]
            .hasPrefix(#"{"id":5,"ok":{"keys":["k0","k10","k20","k30"]"#))
        // Matches any value, also an object.
        let all = try ask(#"{"id":6,"op":"count","path":"/p","query":{"where":[["types","has","bar"]]}}"#, socket)
        #expect(all == [#"{"id":6,"ok":{"count":40}}"#])
        let ordered = try explained(#"{"orderBy":"types/cafe","startAt":false}"#, socket)
        #expect(ordered == #"{"children":40,"index":"types/cafe","looks":4,"start":"order"}"#)
        let live = try ask(
            #"{"id":7,"op":"observe","path":"/p","events":["count"],"query":{"orderBy":"types/cafe","startAt":true}}"#, socket, 2)
        #expect(live[0] == #"{"id":7,"ok":{"seq":1}}"# && live[1].contains(#""count":4"#), "\(live)")
        #expect(try ask(#"{"id":8,"op":"set","path":"/p/k1/types/cafe","value":true}"#, socket, 2)[0].contains(#""count":5"#))
        // Without the index the place is too large.
        let cafes = (0..<31).map { "\"k\($0)\":{\"types\":{\"cafe\":true}}" }.joined(separator: ",")
        _ = try ask("{\"id\":9,\"op\":\"set\",\"path\":\"/few\",\"value\":{\(cafes)}}", socket)
        let refused = try ask(#"{"id":10,"op":"get","path":"/few","query":{"where":[["types","has","cafe"]]}}"#, socket)[0]
        #expect(refused.contains("missing_index") && refused.contains(#".indexOn\": \"types/*\""#), "\(refused)")
    }

    @Test func ordersOfMembers_areFewAtAPlace() throws {
        let (_, socket) = try connect { $0.limits.engine.membershipOrders = 2 }
        func observe(_ id: Int, _ tag: String) throws -> String {
            let query = "{\"orderBy\":\"types/\(tag)\",\"limitToLast\":1}"
            try socket.sendText("{\"id\":\(id),\"op\":\"observe\",\"path\":\"/p\",\"events\":[\"ready\"],\"query\":\(query)}")
            let answer = try socket.text()
            if answer.contains("\"ok\"") { _ = try socket.text() }
            return answer
        }
        #expect(try observe(3, "a").contains("ok") && observe(4, "b").contains("ok"))
        #expect(try observe(5, "c").contains("too_big"))
        // An index without observers makes room.
        _ = try ask(#"{"id":6,"op":"unobserve","sub":3}"#, socket)
        #expect(try observe(7, "c").contains("ok") && observe(8, "d").contains("too_big"))
    }

    /// A query whose first index cannot be kept uses the next one; it is refused only if there is no other.
    @Test func startThatCannotBeKept_isReplacedByTheNext() throws {
        let (server, socket) = try connect {
            ($0.limits.engine.membershipOrders, $0.limits.engine.unindexedChildren) = (1, 30)
        }
        let held = #"{"id":3,"op":"observe","path":"/p","events":["ready"],"query":{"orderBy":"types/bar","limitToLast":1}}"#
        #expect(try ask(held, socket, 2)[0].contains("ok"))
        let has = #"["types","has","cafe"]"#
        func keys(_ query: String) throws -> String {
            let answer = try Node(json: ask("{\"id\":4,\"op\":\"get\",\"path\":\"/p\",\"query\":\(query)}", socket)[0])
            let code = answer.node(at: "error/code")
            return code.exists ? code.json : answer.node(at: "ok/keys").children.map { $0.node.json }.joined(separator: ",")
        }
        #expect(try keys("{\"where\":[\(has)]}") == #""too_big""#)
        #expect(try keys("{\"where\":[\(has),[\"status\",\"==\",\"s2\"]]}") == #""k10","k30""#, "an index of another condition")
        #expect(try keys("{\"where\":[\(has)],\"orderBy\":\"rating\",\"startAt\":15}") == #""k20","k30""#, "the order")
        #expect(try keys("{\"where\":[\(has)],\"startAt\":\"k2\",\"endAt\":\"k21\"}") == #""k20""#, "the order by key")
        #expect(try keys("{\"where\":[[\"status\",\"==\",\"s2\"]],\"orderBy\":\"types/cafe\",\"startAt\":true}") == #""k10","k30""#)
        // An observer's limit is refilled from its order, which must be kept.
        let limited = "{\"where\":[[\"status\",\"==\",\"s2\"]],\"orderBy\":\"types/cafe\",\"limitToLast\":1}"
        #expect(try keys(limited) == #""too_big""#)
        let counted = try RESTPeer(server).get("/p.json?count=true&where=types%20has%20cafe,%20status%20%3D%3D%20s2")
        #expect(counted == "200 2")
        _ = try ask(#"{"id":5,"op":"unobserve","sub":3}"#, socket)
        #expect(try keys("{\"where\":[\(has)]}") == #""k0","k10","k20","k30""#, "there is room again")
    }
}
