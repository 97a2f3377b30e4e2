import Dispatch
import HTTPTypes
import HubEngine
@testable import HubServer
import JSONTree
import SecurityRules
import Synchronization
import TestHub
import Testing

/// Why an operation would be allowed or refused, for administrators.
@Suite(.timeLimit(.minutes(30))) struct RuleExplanationTests {
    private static let rules = """
        {"rules": {
          "users": { ".indexOn": "name",
            ".read": "query.limitToFirst <= 5",
            "$uid": {
              ".write": "auth.uid == $uid",
              ".validate": "newData.hasChild('name')",
              "name": { ".validate": "newData.isString() && newData.val().length <= 60" },
              "n": { ".validate": "newData.val() > data.val()" } } },
          "log": { "$k": { ".write": true } },
          "drafts": { "$d": { ".write": true, ".expire": "data.child('at').val()" } },
          "near": { ".geoIndex": { "lat": "a", "lng": "b" },
            ".read": "query.where.by == 'ada' || (query.near && query.radius <= 500 && query.limit <= 9)" },
          "posts": { "$p": { ".write": true, ".removes": ["likes/$p", "by/{user}/$p"], "at": { ".default": "now" } } },
          "likes": { ".validate": "newData.hasChild('kept')" } } }
        """

    private func server() throws -> TestServer {
        let rules = try RuleSet(parsing: Self.rules)
        let server = try TestServer {
            $0.rules = rules
            $0.namespace = "test"
        }
        let writer = try TestSocket(port: server.port)
        try writer.upgrade("/.observe?ns=test")
        try writer.sendText(#"{"id":1,"op":"auth","token":"owner"}"#)
        _ = try writer.text()
        try writer.sendText(#"{"id":2,"op":"set","path":"/users/ada","value":{"name":"Ada","n":3}}"#)
        #expect(try writer.text().contains("\"seq\":1"))
        return server
    }

    private func ask(_ server: TestServer, _ body: String) throws -> (status: Int, answer: Node) {
        let done = DispatchSemaphore(value: 0)
        let answer = Mutex((0, [UInt8]()))
        server.server.explain(Array(body.utf8), namespace: "test") { status, bytes in
            answer.withLock { $0 = (status.code, bytes) }
            done.signal()
        }
        #expect(done.wait(timeout: .now() + 20) == .success)
        let (status, bytes) = answer.withLock { $0 }
        return try bytes.withUnsafeBytes { buffer in
            var reader = JSONReader(buffer)
            return (status, try reader.claims())
        }
    }

    @Test func refusedWrite_namesTheRule_andWhatItsPartsCameTo() throws {
        let server = try server()
        let (status, answer) = try ask(server, #"{"as":{"uid":"ada"},"write":"/users/ada/name","value":5}"#)
        #expect(status == 200)
        #expect(answer.child("allowed") == false)
        #expect(answer.child("reason") == "/users/$uid/name.validate is not true.")
        #expect(answer.child("paths").child("0") == "/users/ada/name")
        let rules = answer.child("rules")
        #expect(rules.child("0").child("rule") == "/users/$uid.write")
        #expect(rules.child("0").child("path") == "/users/ada")
        #expect(rules.child("0").child("result") == true)
        #expect(rules.child("0").child("line") == 5)
        #expect(rules.child("0").child("parts").child("1").child("text") == "auth.uid")
        #expect(rules.child("0").child("parts").child("1").child("value") == "ada")
        #expect(rules.child("2").child("rule") == "/users/$uid/name.validate")
        #expect(rules.child("2").child("result") == false)
        #expect(rules.child("2").child("parts").child("1").child("text") == "newData.isString()")
        #expect(rules.child("2").child("parts").child("1").child("value") == false)
        #expect(answer.child("truncated") == false)
    }

    @Test(arguments: [
        (#"{"a":1,"b":2}"#, "in the index"), (#"{"b":2}"#, #"not in the index: "a" is missing"#),
        (#"{"a":"NaN","b":2}"#, #"not in the index: "a" is no number"#),
        (#"{"a":90,"b":180.5}"#, #"not in the index: "b" is out of range (latitude ±90°, longitude ±180°)"#),
    ]) func childOfAGeoIndex_isTold_whetherItIsFoundByDistance(_ value: String, _ position: String) throws {
        let server = try server()
        let answer = try ask(server, #"{"write":"/near/x","value":\#(value)}"#).answer
        #expect(answer.child("position") == .string(Text(position)))
        #expect(try !ask(server, #"{"read":"/near/x"}"#).answer.child("position").exists, "nothing is there")
        #expect(try !ask(server, #"{"read":"/near"}"#).answer.child("position").exists)
    }

    @Test func count_isExplained_withWhatIsNotMet() throws {
        let rules = #"{"rules":{"c":{".geoIndex":{"lat":"a","lng":"b"},".count":{"if":"query.near","radius":1000}}}}"#
        let parsed = try RuleSet(parsing: rules)
        let server = try TestServer {
            $0.rules = parsed
            $0.namespace = "test"
        }
        let small = try ask(server, #"{"count":"/c","near":true,"radius":10}"#).answer
        #expect(small.child("allowed") == false && small.child("operation") == "count")
        #expect(small.child("reason") == "Without an account the radius is at least 1000 m.")
        let whole = try ask(server, #"{"count":"/c"}"#).answer
        #expect(whole.child("reason") == "The .count rule of the place is not true." && whole.node(at: "rules/0/rule") == "/c.count")
        #expect(try ask(server, #"{"count":"/c","near":true,"radius":1000}"#).answer.child("allowed") == true)
        #expect(try ask(server, #"{"count":"/d"}"#).answer.child("reason") == "There is no .read rule on the way to the place.")
    }

    @Test func whenNodesEnd_isTold() throws {
        let server = try server()
        let (_, answer) = try ask(server, #"{"as":null,"write":"/drafts/x","value":{"at":1800000000000}}"#)
        #expect(answer.node(at: "expires/0") == ["path": "/drafts/x", "at": 1_800_000_000_000, "rule": "/drafts/$d.expire"])
        #expect(try ask(server, #"{"as":null,"write":"/drafts/x","value":{"n":1}}"#).answer.child("expires").isNull)
    }

    @Test func whatWouldFollow_isTold_andWhyItCannot() throws {
        let server = try server()
        func store(_ path: Path, _ value: Node) throws {
            let database = try #require(server.server.hub.database("test"))
            let stored = DispatchSemaphore(value: 0)
            database.submit(.system([TreeWrite(path, WriteValue(value))], .accountDeletion), from: Client(lane: 0, dialect: .system))
            database.snapshot(behindRequests: true) { _, _, _ in stored.signal() }
            #expect(stored.wait(timeout: .now() + 20) == .success)
        }
        try store("posts/p", ["user": "ada"])
        try store("likes", ["kept": 1, "p": ["x": true]])
        try store("by", ["ada": ["p": 1]])
        let removal = #"{"as":null,"write":"/posts/p","value":null}"#
        var (_, answer) = try ask(server, removal)
        #expect(answer.child("allowed") == true && answer.child("then").childCount == 2)
        #expect(answer.node(at: "then/0") == ["path": "/likes/p", "rule": "/posts/$p.removes"])
        #expect(answer.node(at: "then/1/path") == "/by/ada/p")
        try store("likes/kept", .null)
        (_, answer) = try ask(server, removal)
        #expect(answer.child("allowed") == true, "with the last of the likes the place is gone")
        try store("likes", ["p": 1, "q": 1])
        (_, answer) = try ask(server, removal)
        let reason: Node = "/likes.validate is not true for /likes/p, which follows by /posts/$p.removes."
        #expect(answer.child("allowed") == false && answer.child("reason") == reason)
        // A value that is not a valid key matches no place.
        try store("likes", .null)
        try store("posts/p/user", "a/b")
        (_, answer) = try ask(server, removal)
        #expect(answer.child("allowed") == true && answer.child("then").isNull)
    }

    @Test func failingExpression_isAnError() throws {
        let server = try server()
        let (_, answer) = try ask(server, #"{"as":null,"read":"/users"}"#)
        #expect(answer.child("allowed") == false)
        #expect(answer.child("signedIn") == false)
        #expect(answer.child("reason") == "No .read rule on the way to the place allowed the read.")
        #expect(answer.child("rules").child("0").child("error") == "only two numbers or two strings can be ordered")
        #expect(try ask(server, #"{"read":"/log"}"#).answer.child("reason") == "There is no .read rule on the way to the place.")
    }

    @Test func query_write_andUpdate_areDecidedAsTheHubDoes() throws {
        let server = try server()
        #expect(try ask(server, #"{"query":"/users","orderByChild":"name","limitToFirst":5}"#).answer.child("allowed") == true)
        #expect(try ask(server, #"{"query":"/users","limitToFirst":6}"#).answer.child("allowed") == false)
        for (parameters, isAllowed) in [
            (#""where":{"by":"ada"}"#, true), (#""where":{"by":"ben"}"#, false), (#""near":true,"radius":500,"limit":9"#, true),
            (#""near":true,"radius":500.5,"limit":9"#, false), (#""near":true,"radius":500"#, false), (#""where":{},"near":false"#, false),
        ] {
            let answer = try ask(server, "{\"query\":\"/near\",\(parameters)}").answer
            #expect(answer.child("allowed") == .bool(isAllowed), "\(parameters): \(answer.json)")
        }
        #expect(
            try ask(server, #"{"as":{"uid":"ada"},"update":"/","values":{"users/ada/name":"A","log/x":1}}"#).answer.child("allowed") == true
        )
        #expect(
            try ask(server, #"{"as":{"uid":"bo"},"update":"/","values":{"log/x":1,"users/ada/name":"A"}}"#).answer.child("allowed") == false
        )
        // Server values are filled in first, from the current content.
        #expect(
            try ask(server, #"{"as":{"uid":"ada"},"write":"/users/ada/n","value":{".sv":{"increment":1}}}"#).answer.child("allowed") == true
        )
        #expect(try ask(
            server, #"{"as":{"uid":"ada"},"write":"/users/ada/n","value":{".sv":{"increment":-1}}}"#).answer.child("allowed") == false)
        #expect(
            try ask(server, #"{"as":{"uid":"ada"},"now":7,"write":"/users/ada/n","value":{".sv":"timestamp"}}"#).answer.child("now") == 7)
    }

    @Test func explaining_changesNothing() throws {
        let server = try server()
        #expect(try ask(server, #"{"write":"/log/a","value":1}"#).answer.child("allowed") == true)
        let reader = try TestSocket(port: server.port)
        try reader.upgrade("/.observe?ns=test")
        try reader.sendText(#"{"id":1,"op":"auth","token":"owner"}"#)
        _ = try reader.text()
        try reader.sendText(#"{"id":2,"op":"get","path":"/"}"#)
        #expect(try reader.text() == #"{"id":2,"ok":{"value":{"users":{"ada":{"n":3,"name":"Ada"}}}}}"#)
        try reader.sendText(#"{"id":3,"op":"set","path":"/log/b","value":1}"#)
        #expect(try reader.text().contains("\"seq\":2"))
    }

    @Test(arguments: [
        ("", "not JSON"), ("[]", "Expected an object"), ("{}", "Name one of"), (#"{"read":"/a","write":"/a","value":1}"#, "only one"),
        (#"{"read":"a.b"}"#, "takes a path"), (#"{"write":"/a"}"#, "has a \"value\""), (#"{"update":"/a"}"#, "has \"values\""),
        (#"{"update":"/","values":{"a":1,"a/b":2}}"#, "contains another"), (#"{"update":"/","values":{"":1}}"#, "no path below"),
        (#"{"query":"/a","where":5}"#, "cannot be that"), (#"{"query":"/a","where":{"a.b":1}}"#, "paths below each child"),
        (#"{"query":"/a","where":{"a":{"b":1}}}"#, "paths below each child"), (#"{"query":"/a","radius":0}"#, "cannot be that"),
        (#"{"query":"/a","near":1}"#, "cannot be that"), (#"{"read":"/a","near":true}"#, "belong to a \"query\""),
        (#"{"read":"/a","limitToFirst":5}"#, "belong to a \"query\""), (#"{"query":"/a","limitToFirst":0}"#, "cannot be that"),
        (#"{"read":"/a","as":"ada"}"#, "is auth, such as"), (#"{"read":"/a","raed":1}"#, "not known"),
        (#"{"read":"/a","as":null,"as":null}"#, "twice"),
        (#"{"read":"/a","now":"soon"}"#, "ms since 1970"), (#"{"write":"/a","value":{".sv":"never"}}"#, "Invalid"),
        (#"{"read":"/a"} x"#, "not JSON"),
    ]) func impossibleInquiry_isRefused_withWhatToDo(_ body: String, _ words: String) throws {
        let (status, answer) = try ask(try server(), body)
        #expect(status == 400)
        #expect(answer.child("error").json.replacing("\\\"", with: "\"").contains(words), "\(answer.json)")
    }

    /// A wide write evaluates more rules, and has longer values, than an explanation shows.
    @Test func explanation_isBounded_andTellsTheLastRule() throws {
        let rules = try RuleSet(
            parsing: #"{"rules":{".write":true,"$k":{".validate":"newData.val() != 'no' && newData.val().length > 0"}}}"#)
        let server = try TestServer {
            $0.rules = rules
            $0.namespace = "test"
        }
        let long = String(repeating: "x", count: 100_000)
        let members = (0..<3_000).map { "\"k\(10_000 + $0)\":\"\($0 < 5 ? long : "v")\"" }.joined(separator: ",")
        let (status, answer) = try ask(server, "{\"write\":\"/\",\"value\":{\(members),\"z\":\"no\"}}")
        #expect(status == 200)
        #expect(answer.child("truncated") == true)
        #expect(answer.json.utf8.count < 3 << 20)
        #expect(answer.child("reason") == "/$k.validate is not true.")
        let last = answer.child("rules").children.map(\.node).max { $0.child("path").json < $1.child("path").json }
        #expect(last?.child("path") == "/z")
        #expect(last?.child("result") == false)
    }
}
