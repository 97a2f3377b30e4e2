import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing
import TestSupport
import WireProtocols

/// Any method with any parameters and body gets an answer of the contract, never a 5xx, and the hub keeps running.
///
/// See `FuzzLoop` for long runs. `VIGLA_FUZZ_PORT` names the port of a running hub (`vigla serve --dev --memory`, a release build) to use instead.
@Suite(.timeLimit(.fuzzing)) struct RESTFuzzTests {
    private static let statuses: Set<Int> = [200, 204, 302, 304, 400, 401, 404, 405, 412, 413, 414, 431]

    @Test func anyRequest_isAnsweredInTheWordsOfTheContract() throws {
        let rules = try RuleSet(parsing: #"""
            {"rules":{".read":"auth==null||auth.uid!='eve'",".write":"newData.child('no').val()!=true",
              "a":{".indexOn":["b",".value","x/y"]},
              "v":{".validate":"newData.isNumber()||newData.hasChildren()","$k":{".validate":"$k.length<9"}}}}
            """#)
        let server = try TestServer { $0.rules = rules }
        var counts: [Int: Int] = [:]
        let port = FuzzLoop.environment("VIGLA_FUZZ_PORT").map { UInt16($0) } ?? server.port
        var socket = try TestSocket(port: port)
        let loop = FuzzLoop("REST", count: 2_000)
        loop.run(saying: { ", answers \(counts.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" })" }) { seed in
            var random = SeededRandom(seed)
            let request = Self.request(&random)
            do {
                try socket.send(request.bytes)
                let answer = request.isHead ? try socket.head() : try socket.response()
                counts[answer.status, default: 0] += 1
                if let fault = Self.fault(answer, request.isHead) {
                    return "\(fault)\n\(String(decoding: request.bytes, as: UTF8.self).debugDescription)\n\(answer.head)\(answer.body)"
                }
                if answer.field("Connection") == "close" { socket = try TestSocket(port: port) }
                return nil
            } catch {
                return "\(error)\n\(String(decoding: request.bytes, as: UTF8.self).debugDescription)"
            }
        }
        #expect(try TestSocket(port: port).get("/.health").status == 200)
        #expect(counts[200, default: 0] > 0 && counts[400, default: 0] > 0, "\(counts)")
    }

    private static func fault(_ answer: TestSocket.Response, _ isHead: Bool) -> String? {
        guard statuses.contains(answer.status) else { return "status \(answer.status)" }
        let type = answer.field("Content-Type") ?? ""
        if isHead || [204, 302, 304].contains(answer.status) || type.hasPrefix("text/") { return nil }
        if answer.field("Access-Control-Allow-Methods") != nil { return nil }
        var body = answer.body[...]
        if type.hasPrefix("application/javascript") {
            guard let open = body.firstIndex(of: "("), body.last == ")" else { return "no call" }
            body = body[body.index(after: open)...].dropLast()
        }
        let bytes = Array(body.utf8)
        return bytes.withUnsafeBytes { buffer -> String? in
            var reader = JSONReader(buffer)
            guard let node = try? reader.claims(), (try? reader.expectEnd()) != nil else { return "no JSON" }
            if answer.status >= 400, answer.status != 412 {
                if case .string = node.child("error") { return nil } else { return "no error text" }
            }
            return nil
        }
    }

    // MARK: Requests

    private static let methods = ["GET", "GET", "GET", "PUT", "PUT", "PATCH", "PATCH", "POST", "DELETE", "HEAD", "OPTIONS", "BREW"]
    private static let segments = [
        "a", "b", "v", "x", "0", "1", "7", "no", "é", "%20", "%25", "a%2Fb", ".", "..", "k$", "%F0%9F%98%80", "-0", "01", "[MIN_NAME]",
        "long" + String(repeating: "g", count: 800),
    ]
    private static let texts = [
        "1", "0", "-3", "1.5", "1e400", "null", "true", "\"a\"", "\"\"", "\"$key\"", "\"$value\"", "\"$priority\"", "\"b\"", "\"x/y\"",
        "\"b\",\"k\"", "{}", "[1]", "{\"uid\":\"eve\"}",
        "{\"uid\":1}", "pretty", "silent", "export", "tiny", "unlimited", "500ms", "3s", "16min", "a.json", "f", "alert(1)", "PUT", "PATCH",
        "owner", "x.y.z", "%FF", "99999999999999999999", "", "nonsense",
    ]
    private static let names = [
        "print", "shallow", "orderBy", "startAt", "startAfter", "endAt", "endBefore", "equalTo", "limitToFirst", "limitToLast", "timeout",
        "writeSizeLimit", "format", "download",
        "callback", "auth_variable_override", "x-http-method-override", "access_token", "auth", "disableTriggers", "ac", "unknown",
    ]
    private static let fields = [
        "X-Firebase-ETag: true", "if-match: null_etag", "if-match: x", "if-none-match: null_etag", "if-none-match: \"x\"",
        "Authorization: Bearer owner", "Authorization: Bearer x", "Authorization: Basic eA==",
        "Origin: http://localhost:1", "X-HTTP-Method-Override: DELETE", "X-HTTP-Method-Override: nope", "Content-Type: text/plain",
        "Accept: */*",
    ]

    private static func request(_ random: inout SeededRandom) -> (bytes: [UInt8], isHead: Bool) {
        func pick<T>(_ list: [T]) -> T { list[Int.random(in: 0..<list.count, using: &random)] }
        func chance(_ n: Int) -> Bool { Int.random(in: 0..<n, using: &random) == 0 }
        let method = pick(methods)
        var path = ""
        for _ in 0..<Int.random(in: 0...(chance(20) ? 40 : 3), using: &random) {
            path += "/" + (chance(3) ? pick(segments) : pick(["a", "b", "v"]))
        }
        path += chance(8) ? "/.priority.json" : chance(30) ? "" : chance(5) ? "/.json" : (path.isEmpty ? "/.json" : ".json")
        if chance(40) {
            path = "/.settings/" + pick(
                ["rules", "explain", "secrets", "defaultWriteSizeLimit", "nothing", "secrets/x"]) + pick([".json", ""])
        }
        if !path.hasPrefix("/") { path = "/" + path }
        var query = ["ns=test"]
        for _ in 0..<Int.random(in: 0...4, using: &random) where chance(2) { query.append(pick(names) + "=" + pick(texts)) }
        if chance(4) {
            query += ["orderBy=" + pick(["\"$key\"", "\"b\"", "\"$value\"", "\"$priority\""]), "limitToFirst=" + pick(["1", "2", "0"])]
        }
        var body = ""
        if ["PUT", "PATCH", "POST"].contains(method) || chance(10) { body = chance(6) ? pick(texts) : value(&random, 0) }
        if chance(12), !body.isEmpty { body = String(body.prefix(Int.random(in: 0..<body.count, using: &random))) }
        var lines = ["\(method) \(path)?\(query.shuffled(using: &random).joined(separator: "&")) HTTP/1.1", "Host: localhost"]
        for _ in 0..<Int.random(in: 0...2, using: &random) where chance(2) { lines.append(pick(fields)) }
        lines.append("Content-Length: \(body.utf8.count)")
        return (Array((lines.joined(separator: "\r\n") + "\r\n\r\n" + body).utf8), method == "HEAD")
    }

    private static func value(_ random: inout SeededRandom, _ depth: Int) -> String {
        func pick<T>(_ list: [T]) -> T { list[Int.random(in: 0..<list.count, using: &random)] }
        switch Int.random(in: 0..<(depth > 4 ? 6 : 10), using: &random) {
        case 0: return pick(["null", "true", "false"])
        case 1: return "\(Int64.random(in: .min ... .max, using: &random))"
        case 2: return "\(Double.random(in: -1e300...1e300, using: &random))"
        case 3, 4: return pick(["\"\"", "\"text\"", "\"\\u0000\\n\\\"\"", "\"\\ud83d\"", "\"é😀\""])
        case 5: return pick([
            #"{".sv":"timestamp"}"#, #"{".sv":{"increment":1.5}}"#, #"{".sv":"x"}"#, #"{".value":1,".priority":"p"}"#,
            #"{".value":{},".priority":true}"#, "[]", "{}",
        ])
        case 6: return "[" + (0..<Int.random(in: 0...4, using: &random)).map { _ in value(&random, depth + 1) }.joined(separator: ",") + "]"
        default:
            let members = (0..<Int.random(in: 0...4, using: &random)).map { _ in
                let name = pick([
                    "a", "b", "c", "a/b", "v", "no", "0", "1", "é", ".priority", "a/.priority", "bad.key", "", "$x", "/", "a//c",
                    "long" + String(repeating: "g", count: 800),
                ])
                return "\"\(name)\":" + value(&random, depth + 1)
            }
            return "{" + members.joined(separator: ",") + "}"
        }
    }
}
