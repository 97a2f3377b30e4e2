import HubServer
import SecurityRules
import TestHub
import Testing
import WireProtocols

/// Checks 111–125: REST over a real socket.
@Suite(.timeLimit(.minutes(30))) struct RESTChecks {
    @Test func checklist_111_getOfNothingIsNull() throws {
        let peer = try RESTPeer(TestServer())
        #expect(try peer.get("/nothing/here.json") == "200 null")
        #expect(try peer.get("/.json") == "200 null")
    }

    @Test func checklist_112_putAndPatchEcho_postNames_deleteIsNull() throws {
        let server = try TestServer()
        let peer = try RESTPeer(server)
        #expect(try peer.put("/a.json", #"{"x":1,"list":[1,null,"z"],"p":{".value":2,".priority":1}}"#)
            == #"200 {"list":[1,null,"z"],"p":{".value":2,".priority":1},"x":1}"#)
        #expect(try peer.patch("/a.json", #"{"x":2,"list/0":null,"deep/er":"é\n"}"#) == #"200 {"x":2,"list/0":null,"deep/er":"é\n"}"#)
        #expect(try peer.get("/a.json") == #"200 {"deep":{"er":"é\n"},"list":{"2":"z"},"p":2,"x":2}"#)
        let name = try peer.line("POST", "/list.json", #""first""#)
        #expect(name.wholeMatch(of: /200 \{"name":"[-0-9A-Z_a-z]{20}"\}/) != nil, "\(name)")
        let key = name.dropFirst(13).prefix(20)
        #expect(try peer.get("/list/\(key).json") == #"200 "first""#)
        #expect(try peer.line("DELETE", "/list.json") == "200 null")
        #expect(try peer.get("/list.json") == "200 null")
        #expect(try peer.put("/a/b/.json", "1") == "200 1", "a slash before .json")
        #expect(try peer.get("//a///b.json") == "200 1", "slashes collapse")
        #expect(try peer.put("/sp%20ace/%C3%A9+.json", "1") == "200 1")
        #expect(try peer.get("/.json?shallow=true") == #"200 {"a":true,"sp ace":true}"#)
    }

    @Test func serverValues_areEchoedAsStored_butNotToThoseWhoMayNotRead() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"open":{".read":true,".write":true},"box":{".write":true}}}"#)
        let server = try TestServer { $0.rules = rules }
        let peer = try RESTPeer(server)
        let echo = try peer.put("/open.json", #"{"t":{".sv":"timestamp"},"n":{".sv":{"increment":2}}}"#)
        #expect(echo.wholeMatch(of: /200 \{"n":2,"t":1[0-9]{12}\}/) != nil, "\(echo)")
        #expect(try peer.put("/open/n.json", #"{".sv":{"increment":3}}"#) == "200 5")
        #expect(try RESTPeer.owner(server).put("/box.json", "40") == "200 40")
        #expect(try peer.put("/box.json", #"{".sv":{"increment":2}}"#) == #"200 {".sv":{"increment":2}}"#)
        #expect(try RESTPeer.owner(server).get("/box.json") == "200 42")
    }

    @Test func checklist_113_silentIs204() throws {
        let peer = try RESTPeer(TestServer())
        for (method, body) in [("PUT", "1"), ("PATCH", #"{"b":1}"#), ("POST", "1"), ("GET", ""), ("DELETE", "")] {
            let answer = try peer.ask(method, "/a.json?print=silent", body)
            #expect(answer.status == 204 && answer.body.isEmpty && answer.field("Content-Length") == nil, "\(method)")
        }
    }

    @Test func checklist_114_shallowNamesChildren() throws {
        let peer = try RESTPeer(TestServer())
        try peer.put("/k.json", #"{"a":{"b":1},"c":2,"d":{"e":{"f":1}},"z":"s"}"#)
        #expect(try peer.get("/k.json?shallow=true") == #"200 {"a":true,"c":true,"d":true,"z":true}"#)
        #expect(try peer.get("/k/z.json?shallow=true") == #"200 "s""#)
        #expect(try peer.get("/k/none.json?shallow=true") == "200 null")
        #expect(try peer.get("/k.json?shallow=true&limitToFirst=2") == #"200 {"a":true,"c":true}"#)
        #expect(try peer.get(#"/k.json?shallow=true&limitToFirst=2&startAfter="c"&timeout=500ms"#) == #"200 {"d":true,"z":true}"#)
        #expect(try peer.get("/k.json?shallow=true&limitToLast=1") == #"200 {"z":true}"#)
        #expect(try peer.get(#"/k.json?shallow=true&startAfter="z""#) == "200 null")
        #expect(try peer.refusal("GET", #"/k.json?shallow=true&orderBy="$key""#).hasPrefix("400 "))
        try peer.put("/l.json", "[1,2]")
        #expect(try peer.get("/l.json?shallow=true") == #"200 {"0":true,"1":true}"#)
    }

    @Test func checklist_115_errorsAreObjects_and401ForRulesAndTokens() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"me":{".read":"auth.uid=='ana'",".write":"auth.uid=='ana'"}}}"#)
        let server = try TestServer { $0.rules = rules }
        let peer = try RESTPeer(server)
        #expect(try peer.ask("GET", "/me.json").body == "{\n  \"error\" : \"Permission denied\"\n}\n")
        for (method, body) in [("GET", ""), ("PUT", "1"), ("PATCH", #"{"a":1}"#), ("POST", "1"), ("DELETE", "")] {
            #expect(try peer.refusal(method, "/me.json", body) == "401 Permission denied", "\(method)")
        }
        for target in ["/me.json?auth=nonsense", "/me.json?access_token=a.b.c"] {
            #expect(try peer.refusal("GET", target) == "401 Could not parse auth token.")
        }
        #expect(try peer.refusal("GET", "/me.json", "", ["Authorization: Bearer wrong"]) == "401 Could not parse auth token.")
        #expect(try peer.get("/me.json?auth=\(Token.mock("ana"))") == "200 null")
        #expect(try peer.get("/me.json", ["Authorization: Bearer \(Token.mock("ana"))"]) == "200 null")
        #expect(try peer.refusal("GET", "/me.json?auth=\(Token.mock("bo"))") == "401 Permission denied")
    }

    @Test(arguments: [
        ("GET", "/k.json?limitToFirst=1", "", "orderBy must be defined when other query parameters are defined"),
        ("GET", "/k.json?startAt=1", "", "orderBy must be defined when other query parameters are defined"),
        ("GET", "/k.json?orderBy=a", "", "orderBy must be a valid JSON encoded path"),
        ("GET", "/k.json?orderBy=", "", "orderBy must be a valid JSON encoded path"),
        ("GET", "/k.json?orderBy=%22%22", "", "orderBy must be a valid JSON encoded path"),
        ("GET", "/k.json?orderBy=%22a.b%22", "", "orderBy must be a valid JSON encoded path"),
        ("GET", "/k.json?orderBy=%22$key%22&startAt={}", "", "Constraint index field must be a JSON primitive"),
        ("GET", "/k.json?orderBy=%22$key%22&endAt=%5B1%5D", "", "Constraint index field must be a JSON primitive"),
        ("GET", "/k.json?orderBy=%22$priority%22&equalTo=nonsense", "", "Constraint index field must be a JSON primitive"),
        ("GET", "/k.json?orderBy=%22$key%22&limitToFirst=1&limitToLast=1", "", "Only one of limitToFirst and limitToLast may be specified"),
        ("GET", "/k.json?orderBy=%22$key%22&limitToFirst=x", "", "limitToFirst must be an integer"),
        ("GET", "/k.json?orderBy=%22$key%22&limitToLast=1.5", "", "limitToLast must be an integer"),
        ("GET", "/k.json?orderBy=%22$key%22&limitToFirst=0", "", "limitToFirst must be positive"),
        ("GET", "/k.json?orderBy=%22$key%22&limitToLast=-3", "", "limitToLast must be positive"),
        (
            "GET", "/k.json?orderBy=%22$priority%22&equalTo=1&endAt=2", "",
            "equalTo cannot be specified in addition to startAfter, startAt, endAt, or endBefore"),
        ("GET", "/k.json?orderBy=%22$key%22&startAt=1", "", "Provided key index type is invalid, must be string"),
        ("GET", "/k.json?orderBy=%22age%22", "", #"Index not defined, add ".indexOn": "age", for path "/k", to the rules"#),
        ("GET", "/k.json?orderBy=%22$value%22", "", #"Index not defined, add ".indexOn": ".value", for path "/k", to the rules"#),
        ("GET", "/k.json?timeout=3", "", "timeout must be a number with its unit, such as 500ms, 3s or 2min, of at most 15min"),
        ("GET", "/k.json?timeout=16min", "", "timeout must be a number with its unit, such as 500ms, 3s or 2min, of at most 15min"),
        ("PUT", "/k.json", "{", "Invalid data; couldn't parse JSON object, array, or value."),
        ("PUT", "/k.json", "1 2", "Invalid data; couldn't parse JSON object, array, or value."),
        ("POST", "/k.json", "nope", "Invalid data; couldn't parse JSON object, array, or value."),
        ("PATCH", "/k.json", "[1]", "Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?"),
        (
            "PATCH", "/k.json", #"{"a.b":1}"#,
            "Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?"),
        (
            "PUT", "/k.json", #"{"a.b":1}"#,
            "Invalid data; couldn't parse key beginning at 1:2. Key value can't be empty or contain $ # [ ] / or ."),
        (
            "PUT", "/k.json", "{\"a\":\n  {\"\":1}}",
            "Invalid data; couldn't parse key beginning at 2:4. Key value can't be empty or contain $ # [ ] / or ."),
        ("PUT", "/k.json", "", "Error: No data supplied."),
        ("PATCH", "/k.json", "  \n", "Error: No data supplied."),
        ("PUT", "/k$.json", "1", "Invalid path: Invalid token in path"),
        ("GET", "/.info/connected.json", "", "Invalid path: Invalid token in path"),
        ("GET", "/a%2Fb.json", "", "Invalid path: Invalid token in path"),
        ("PUT", "/k.json", #"{"a":{".sv":"later"}}"#, "Invalid data; unknown server value."),
        ("PATCH", "/k.json", #"{"a":1,"a/b":2}"#, "Invalid data; contains a path /a that is ancestor of another path /a/b"),
        ("PUT", "/k.json?writeSizeLimit=huge", "1", "writeSizeLimit must be tiny, small, medium, large or unlimited"),
        ("GET", "/k.json?callback=alert(1)", "", "callback must be the name of a JavaScript function"),
        ("GET", "/k.json?auth_variable_override=7", "", "auth_variable_override must be a JSON object or null"),
    ]) func checklist_116_every400HasItsText(_ method: String, _ target: String, _ body: String, _ text: String) throws {
        let peer = try RESTPeer(TestServer())
        #expect(try peer.refusal(method, target, body) == "400 \(text)")
        #expect(try peer.get("/k.json") == "200 null", "nothing was written, and the connection goes on")
    }

    @Test func keyThatIsTooLong_isSaidToBeSo() throws {
        let peer = try RESTPeer(TestServer())
        let key = String(repeating: "k", count: 768)
        #expect(try peer.get("/\(key).json") == "200 null")
        #expect(try peer.refusal("PUT", "/\(key)k.json", "1") == "400 Invalid path: a key has more than 768 bytes")
    }

    @Test func checklist_116_withoutJSON_isPlainText() throws {
        let answer = try RESTPeer(TestServer()).ask("GET", "/k")
        let text = "append .json to your request URI to use the REST API.\n"
        #expect(answer.status == 404 && answer.body == text)
        for method in ["PUT", "PATCH", "POST", "DELETE"] {
            for target in ["/k", "/"] {
                let refused = try RESTPeer(TestServer()).ask(method, target, method == "DELETE" ? "" : "{}")
                #expect(refused.status == 405 && refused.body == text, "\(method) \(target)")
            }
        }
    }

    @Test func checklist_116_aBodyOverTheWriteSizeLimit_isRefused() throws {
        let peer = try RESTPeer(TestServer { $0.limits.http.bodyBytes = 16 << 20 })
        let text = String(repeating: "x", count: 10 << 20 - 2)
        let refused = try peer.refusal("PUT", "/k.json?writeSizeLimit=tiny&print=silent", "[\"\(text)\"]")
        #expect(refused == "400 Data to write exceeds the maximum size that can be modified with a single request.")
        #expect(try peer.put("/k.json?writeSizeLimit=tiny&print=silent", "\"\(text)\"") == "204 ")
    }

    @Test func queries_selectAndOrderAsOnTheSocket() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":true,".write":true,"k":{".indexOn":["age",".value"]}}}"#)
        let peer = try RESTPeer(TestServer { $0.rules = rules })
        try peer.put("/k.json", #"{"a":{"age":1},"b":{"age":2},"c":{"age":2},"d":{"age":3},"e":{".value":7,".priority":2}}"#)
        func keys(_ query: String) throws -> String {
            try peer.get("/k.json?" + query).split(separator: "\"").filter { $0.count == 1 && $0.first!.isLetter }.joined()
        }
        for (query, expected) in [
            (#"orderBy="age"&startAt=2"#, "bcd"), (#"orderBy="age"&startAfter=2"#, "d"), (#"orderBy="age"&endAt=1"#, "ae"),
            (#"orderBy="age"&endBefore=2"#, "ae"), (#"orderBy="age"&equalTo=2"#, "bc"), (#"orderBy="age"&equalTo=2,"c""#, "c"),
            (#"orderBy="age"&startAfter=2,"b""#, "cd"), (#"orderBy="age"&endBefore=2,"c""#, "abe"), (#"orderBy="age"&limitToLast=2"#, "cd"),
            (#"orderBy="age"&limitToFirst=2"#, "ae"), (#"orderBy="$key"&startAfter="b"&limitToFirst=2"#, "cd"),
            (#"orderBy="$key"&endBefore="b""#, "a"),
            (#"orderBy="$priority"&startAt=1"#, "e"), (#"orderBy="$value"&equalTo=7"#, "e"), (#"orderBy="age"&startAt=5&endAt=1"#, ""),
            (#"orderBy="age"&limitToFirst=99999999999999999999"#, "abcde"),
        ] { #expect(try keys(query) == expected, "\(query)") }
    }

    private static let hash = "XnLeTeWQmzTHImTbSMDLg/qMrKY="

    @Test func checklist_117_etagOnRequest() throws {
        let peer = try RESTPeer(TestServer())
        let wanted = ["X-Firebase-ETag: true"]
        #expect(try peer.ask("GET", "/n.json", "", wanted).field("ETag") == "null_etag")
        #expect(try peer.ask("GET", "/n.json").field("ETag") == nil)
        #expect(try peer.ask("PUT", "/n.json", #"{"foo":"bar"}"#, wanted).field("ETag") == Self.hash)
        #expect(try peer.ask("GET", "/n.json", "", wanted).field("ETag") == Self.hash)
        #expect(try peer.ask("PUT", "/n/.priority.json", "1").status == 200)
        #expect(try peer.ask("GET", "/n.json", "", wanted).field("ETag") != Self.hash, "the priority counts")
        #expect(try peer.get("/n/.priority.json") == "200 1")
        #expect(try peer.ask("POST", "/n.json", "1", wanted).field("ETag")?.count == 28)
        #expect(try peer.ask("DELETE", "/n.json", "", wanted).field("ETag") == "null_etag")
    }

    @Test func checklist_118_staleIfMatchIs412WithTheContent() throws {
        let peer = try RESTPeer(TestServer())
        let first = try peer.ask("PUT", "/n.json", #"{"foo":"bar"}"#, ["if-match: null_etag"])
        #expect(first.status == 200 && first.field("ETag") == Self.hash, "the ETag comes unasked")
        for (method, body) in [("PUT", "1"), ("DELETE", "")] {
            let stale = try peer.ask(method, "/n.json", body, ["if-match: null_etag"])
            #expect(stale.status == 412 && stale.field("ETag") == Self.hash && stale.body == #"{"foo":"bar"}"#, "\(method)")
        }
        #expect(try peer.put("/n.json", "2", ["if-match: \"\(Self.hash)\""]) == "200 2", "quotes are let go")
        #expect(try peer.line("DELETE", "/n.json", "", ["if-match: \(Self.hash)"]).hasPrefix("412 2"))
    }

    @Test func ifMatch_tellsNothingToThoseWhoMayNotRead() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".write":true}}"#)
        let peer = try RESTPeer(TestServer { $0.rules = rules })
        #expect(try peer.put("/n.json", "1") == "200 1")
        for field in ["if-match: guess", "X-Firebase-ETag: true"] {
            #expect(try peer.refusal("PUT", "/n.json", "2", [field]) == "401 Permission denied")
        }
    }

    @Test func checklist_119_ifNoneMatch() throws {
        let peer = try RESTPeer(TestServer())
        try peer.put("/n.json", #"{"foo":"bar"}"#)
        let hit = try peer.ask("GET", "/n.json", "", ["if-none-match: \(Self.hash)"])
        #expect(hit.status == 304 && hit.body.isEmpty && hit.field("ETag") == Self.hash)
        let miss = try peer.ask("GET", "/n.json", "", ["if-none-match: other"])
        #expect(miss.status == 200 && miss.field("ETag") == Self.hash && miss.body == #"{"foo":"bar"}"#)
    }

    @Test func checklist_120_whatCannotBeMixed() throws {
        let peer = try RESTPeer(TestServer())
        let mixed = "400 Mixing 'shallow', querying parameters or 'print=silent' and if-match or if-none-match requests is not supported"
        for (method, target, field, text) in [
            (
                "PATCH", "/n.json", "X-Firebase-ETag: true",
                "400 X-Firebase-ETag, if-match and if-none-match are not supported for PATCH requests"),
            ("PATCH", "/n.json", "if-match: x", "400 X-Firebase-ETag, if-match and if-none-match are not supported for PATCH requests"),
            ("GET", "/n.json", "if-match: x", "400 if-match is supported for PUT and DELETE requests only"),
            ("POST", "/n.json", "if-match: x", "400 if-match is supported for PUT and DELETE requests only"),
            ("GET", "/n.json?shallow=true", "if-none-match: x", mixed), ("GET", #"/n.json?orderBy="$key""#, "if-none-match: x", mixed),
            ("PUT", "/n.json?print=silent", "if-match: x", mixed),
            ("GET", "/n.json?shallow=true", "X-Firebase-ETag: true", "400 Mixing 'shallow' and etag requests is not supported"),
        ] { #expect(try peer.refusal(method, target, method == "GET" ? "" : "{}", [field]) == text, "\(method) \(target) \(field)") }
    }

    @Test func checklist_121_patchWithNullDeletes() throws {
        let peer = try RESTPeer(TestServer())
        try peer.put("/a.json", #"{"b":1,"c":2}"#)
        #expect(try peer.patch("/a/b.json?print=silent&writeSizeLimit=tiny", "null") == "204 ")
        #expect(try peer.get("/a.json") == #"200 {"c":2}"#)
        for body in ["1", "\"s\"", "true"] { #expect(try peer.refusal("PATCH", "/a.json", body).hasPrefix("400 ")) }
        #expect(try peer.patch("/a.json", "{}") == "200 {}")
        #expect(try peer.patch("/a.json", "null") == "200 null")
        #expect(try peer.get("/.json") == "200 null")
    }

    @Test func checklist_122_methodOverride() throws {
        let peer = try RESTPeer(TestServer())
        #expect(try peer.line("POST", "/a.json", #"{"b":1}"#, ["X-HTTP-Method-Override: PUT"]) == #"200 {"b":1}"#)
        #expect(try peer.line("POST", "/a.json?x-http-method-override=PATCH", #"{"c":2}"#) == #"200 {"c":2}"#)
        #expect(try peer.ask("POST", "/a.json?x-http-method-override=HEAD", "").status == 405, "the answer to a POST has a body")
        #expect(try peer.line("POST", "/a.json?x-http-method-override=GET", "") == #"200 {"b":1,"c":2}"#)
        #expect(try peer.line("POST", "/a.json", "", ["x-http-method-override: delete"]) == "200 null")
        #expect(try peer.refusal("POST", "/a.json", "1", ["X-HTTP-Method-Override: BREW"]).hasPrefix("405 "))
    }

    @Test func checklist_123_jsonpDownloadAndPretty() throws {
        let peer = try RESTPeer(TestServer())
        try peer.put("/a.json", #"{"b":[1,"x"],"c":true}"#)
        let script = try peer.ask("GET", "/a.json?callback=app.got")
        #expect(
            script.body == #"app.got({"b":[1,"x"],"c":true})"# && script.field("Content-Type") == "application/javascript; charset=utf-8")
        let file = try peer.ask("GET", "/a.json?download=my%20%22file%22.json")
        #expect(file.field("Content-Disposition") == #"attachment; filename="my file.json""#)
        let pretty = "{\n  \"b\" : [ 1, \"x\" ],\n  \"c\" : true\n}\n"
        #expect(try peer.ask("GET", "/a.json?print=pretty").body == pretty)
        try peer.put("/l.json", #"{"k":[[1],{"n":{"m":2}},{"n":3}]}"#)
        let list = "{\n  \"k\" : [ [ 1 ], {\n    \"n\" : {\n      \"m\" : 2\n    }\n  }, {\n    \"n\" : 3\n  } ]\n}\n"
        #expect(try peer.ask("GET", "/l.json?print=pretty").body == list)
        #expect(try peer.ask("GET", "/a/c.json?print=pretty").body == "true\n")
        #expect(try peer.ask("GET", "/a/c.json?print=pretty&callback=f").body == "f(true\n)")
        let head = try peer.ask("HEAD", "/a.json")
        #expect(head.status == 200 && head.field("Content-Length") == "22")
        #expect(try peer.get("/a/c.json") == "200 true", "no body came behind the head")
    }

    @Test func checklist_119_queryByAChildOrByValue_isAnObject_othersMayBeArrays() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":true,".write":true,"k":{".indexOn":["n",".value"]}}}"#)
        let peer = try RESTPeer(TestServer { $0.rules = rules })
        try peer.put("/k.json", #"[{"n":[1,2]},{"n":3}]"#)
        for (query, body) in [
            (#"orderBy="n"&equalTo=3"#, #"{"1":{"n":3}}"#), (#"orderBy="n""#, #"{"0":{"n":[1,2]},"1":{"n":3}}"#),
            (#"orderBy="$value"&limitToFirst=5"#, #"{"0":{"n":[1,2]},"1":{"n":3}}"#),
            (#"orderBy="$priority"&limitToFirst=5"#, #"{"0":{"n":[1,2]},"1":{"n":3}}"#),
            (#"orderBy="$key"&limitToFirst=5"#, #"[{"n":[1,2]},{"n":3}]"#), ("", #"[{"n":[1,2]},{"n":3}]"#),
        ] { #expect(try peer.get("/k.json?" + query) == "200 " + body, "\(query)") }
    }

    @Test func checklist_124_exportShowsPriorities() throws {
        let peer = try RESTPeer(TestServer())
        try peer.put("/a.json", #"{".priority":"top","l":[1,2],"v":{".value":5,".priority":1}}"#)
        #expect(try peer.get("/a.json") == #"200 {"l":[1,2],"v":5}"#)
        #expect(try peer.get("/a.json?format=export") == #"200 {"l":{"0":1,"1":2},"v":{".value":5,".priority":1},".priority":"top"}"#)
        #expect(try peer.get("/a/.priority.json") == #"200 "top""#)
    }

    @Test func checklist_125_preflightAllowsAConditionalPut() throws {
        let peer = try RESTPeer(TestServer())
        let asked = [
            "Origin: http://localhost:3000", "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: if-match,authorization",
        ]
        let answer = try peer.ask("OPTIONS", "/a.json", "", asked)
        #expect(answer.status == 200 && answer.field("Access-Control-Allow-Origin") == "*")
        #expect(
            answer.field("Access-Control-Allow-Methods")?.contains("PUT") == true
            && answer.field("Access-Control-Allow-Headers") == "if-match,authorization")
        #expect(answer.field("Access-Control-Max-Age") != nil)
        let put = try peer.ask("PUT", "/a.json", "1", ["Origin: http://localhost:3000", "if-match: null_etag"])
        #expect(
            put.status == 200 && put.field("Access-Control-Allow-Origin") == "*" && put.field("Access-Control-Expose-Headers") == "ETag")
    }

    @Test func pagesFromElsewhere_reachNoDevelopmentServer() throws {
        let peer = try RESTPeer(TestServer())
        #expect(try peer.ask("GET", "/a.json", "", ["Origin: https://evil.example"]).status == 403)
        #expect(try peer.ask("GET", "/a.json?callback=f", "", ["Referer: https://evil.example/page"]).status == 403)
        let production = try RESTPeer(TestServer { $0.isDev = false; $0.namespace = "test" })
        #expect(try production.ask("GET", "/a.json", "", ["Origin: https://app.example"]).status == 200)
    }

    @Test func checklist_129_rulesArePutAndGot_byAdministrators() throws {
        let server = try TestServer()
        let (peer, stranger) = (try RESTPeer.owner(server), try RESTPeer(server))
        let rules = "// mine\n{\"rules\": {\"a\": {\".read\": true}, }}"
        #expect(try peer.ask("PUT", "/.settings/rules.json?dryRun=true", rules).body.contains(#""status":"ok""#))
        #expect(try stranger.get("/b.json") == "200 null", "only checked")
        let deployed = try peer.ask("PUT", "/.settings/rules.json", rules)
        #expect(deployed.status == 200)
        #expect(try RawObject(deployed.body)["status"]?.string == "ok")
        #expect(try peer.get("/.settings/rules.json") == "200 \(rules)", "as it was written")
        let strict = try peer.ask("GET", "/.settings/rules.json?format=strict").body
        #expect(try RawObject(strict)["rules"]?.object()["a"]?.text.contains(".read") == true)
        #expect(try stranger.get("/a.json") == "200 null" && stranger.refusal("GET", "/b.json") == "401 Permission denied")
        #expect(try peer.refusal("PUT", "/.settings/rules.json", #"{"rules":{".read":"dta.exists()"}}"#).hasPrefix("400 1:"))
        #expect(try peer.get("/.settings/rules.json") == "200 \(rules)", "a faulty file changes nothing")
        for (method, target) in [
            ("GET", "/.settings/rules.json"), ("PUT", "/.settings/rules.json"), ("POST", "/.settings/explain"),
            ("GET", "/.settings/explainRules.json"), ("POST", "/.settings/explainRules"), ("GET", "/.inspect/databases.json"),
        ] {
            #expect(try stranger.refusal(method, target, method == "GET" ? "" : "{}") == "401 Permission denied", "\(method) \(target)")
        }
        #expect(try peer.refusal("GET", "/.settings/rules.json?auth=wrong") == "401 Could not parse auth token.")
    }

    @Test func settings_answerWhatTheCommandLineToolAsks() throws {
        let peer = try RESTPeer.owner(TestServer())
        #expect(try peer.ask("POST", "/.settings/explain", #"{"as":null,"read":"/a"}"#).body.contains(#""allowed":true"#))
        #expect(try peer.get("/.settings/defaultWriteSizeLimit.json") == #"200 "unlimited""#)
        #expect(try peer.put("/.settings/defaultWriteSizeLimit.json", #""tiny""#) == #"200 "tiny""#)
        #expect(try peer.get("/.settings/defaultWriteSizeLimit.json") == #"200 "tiny""#)
        #expect(try peer.refusal("PUT", "/.settings/defaultWriteSizeLimit.json", #""vast""#).hasPrefix("400 "))
        #expect(try peer.put("/.settings/strictTriggerValidation.json", "true") == "200 true")
        #expect(try peer.line("POST", "/.settings/functionTriggers.json", "{}").hasPrefix(#"200 {"status":"ok"}"#))
        #expect(try peer.get("/.inspect/databases.json").contains(#"{"name":"test"}"#))
        #expect(try peer.refusal("GET", "/.settings/nonsense.json").hasPrefix("404 "))
        #expect(try peer.refusal("DELETE", "/.settings/rules.json").hasPrefix("405 "))
    }

    @Test func checklist_130_ownerBypasses_overrideApplies_nullIsAnonymous() throws {
        let rules = try RuleSet(
            parsing: #"{"rules":{"u":{"$u":{".read":"auth.uid==$u",".write":"auth.uid==$u"}},"any":{".read":"auth==null"}}}"#)
        let server = try TestServer { $0.rules = rules }
        let peer = try RESTPeer.owner(server)
        #expect(try peer.put("/u/ana.json", "1") == "200 1")
        #expect(try peer.get("/u/ana.json?auth_variable_override=%7B%22uid%22:%22ana%22%7D") == "200 1")
        #expect(try peer.refusal("GET", "/u/ana.json?auth_variable_override=%7B%22uid%22:%22bo%22%7D") == "401 Permission denied")
        #expect(try peer.get("/any.json?auth_variable_override=null") == "200 null")
        #expect(try peer.refusal("GET", "/u/ana.json?auth_variable_override=null") == "401 Permission denied")
        #expect(
            try RESTPeer(server).get("/u/ana.json?auth=\(Token.mock("ana"))&auth_variable_override=%7B%22uid%22:%22bo%22%7D") == "200 1",
            "of others the wish is ignored")
        let production = try RESTPeer.owner(TestServer { $0.isDev = false; $0.namespace = "test" })
        #expect(try production.refusal("GET", "/u.json") == "401 Could not parse auth token.")
    }

    @Test func checklist_131_restAndSocketsShareTheData() throws {
        let server = try TestServer()
        let (socket, peer) = (try Peer(server), try RESTPeer(server))
        try socket.listen("/room")
        #expect(try peer.put("/room/a.json", "1") == "200 1")
        #expect(try peer.patch("/room.json", #"{"b":2,"c/d":3}"#).hasPrefix("200"))
        #expect(try socket.pushes() == ["d room/a 1", #"m room {"b":2,"c/d":3}"#])
        try socket.put("/room/e", "4")
        #expect(try peer.get("/room.json") == #"200 {"a":1,"b":2,"c":{"d":3},"e":4}"#)
    }
}
