import Foundation
import Testing
import TestSupport

/// The commands that work on a hub's data, and the small ones.
@Suite(.timeLimit(.minutes(30))) struct DataCommandTests {
    @Test func setUpdatePushRemove_areSeenByGet() throws {
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"])
        let url = hub.url
        #expect(try Command.run("set", url + "/a", #"{"x":1}"#).output == "")
        #expect(try Command.run("update", url + "/", #"{"a/y":2.5,"b":[true,null,"é"]}"#).code == 0)
        #expect(try Command.run("get", url).output == "{\"a\":{\"x\":1,\"y\":2.5},\"b\":{\"0\":true,\"2\":\"é\"}}\n")
        let key = try Command.run("push", url + "/list", "-", input: "\"one\"\n").output.dropLast()
        #expect(key.count == 20)
        #expect(try Command.run("get", url + "/list/\(key)").output == "\"one\"\n")
        #expect(try Command.run("remove", url + "/a").code == 0)
        #expect(try Command.run("get", url + "/a").output == "null\n")
        #expect(try Command.run("get", url + "/a?ns=another").output == "null\n")
    }

    @Test func watch_printsOneObjectPerEvent() throws {
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"])
        #expect(try Command.run("set", hub.url + "/t", #"{"a":1,"b":2}"#).code == 0)
        let value = try Command.run("watch", hub.url + "/t", "--count", "1")
        #expect(value.output == "{\"seq\":1,\"event\":\"value\",\"value\":{\"a\":1,\"b\":2}}\n")
        let children = try Command.run("watch", hub.url + "/t", "--events", "added,changed,removed", "--count", "2")
        let lines = try children.output.split(separator: "\n").map {
            try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any]
        }
        #expect(lines.map { $0?["key"] as? String } == ["a", "b"])
        #expect(lines.map { $0?["event"] as? String } == ["added", "added"])
        #expect(value.code == 0 && children.code == 0)
    }

    @Test func watch_hearsOfTheChildrenThatAQueryShows() throws {
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"])
        let players = #"{"ana":{"score":5},"ben":{"score":9},"cleo":{"score":7}}"#
        #expect(try Command.run("set", hub.url + "/p", players).code == 0)
        let best = try Command.run(
            "watch", hub.url + "/p", "--order-by", "score", "--last", "2", "--events", "added,moved,removed,ready", "--count", "3")
        #expect(best.output == [
            #"{"seq":1,"event":"added","key":"cleo","value":{"score":7},"prev":null}"#,
            #"{"seq":1,"event":"added","key":"ben","value":{"score":9},"prev":"cleo"}"#, #"{"seq":1,"event":"ready"}"#, "",
        ].joined(separator: "\n"), "\(best)")
        let equal = try Command.run("watch", hub.url + "/p", "--order-by", "score", "--equal", "7", "--events", "count", "--count", "1")
        #expect(equal.output == #"{"seq":1,"event":"count","count":1}"# + "\n", "\(equal)")
        #expect(try Command.run("watch", hub.url + "/p", "--shallow").code == 64)
        #expect(try Command.run("watch", hub.url + "/p", "--limit", "0").code == 64)
    }

    @Test func watch_seesWhatOthersWrite() throws {
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"])
        let pipe = Pipe()
        let process = try Command.start(["watch", hub.url + "/n", "--count", "3"], output: .handle(pipe.fileHandleForWriting))
        try pipe.fileHandleForWriting.close()
        func line() throws -> String {
            var line = Data()
            while let byte = try pipe.fileHandleForReading.read(upToCount: 1), byte.first != 0x0A, !byte.isEmpty { line.append(byte) }
            return String(decoding: line, as: UTF8.self)
        }
        #expect(try line() == #"{"seq":0,"event":"value","value":null}"#)
        #expect(try Command.run("set", hub.url + "/n", "1").code == 0)
        #expect(try line() == #"{"seq":1,"event":"value","value":1}"#)
        #expect(try Command.run("set", hub.url + "/n", "2").code == 0)
        #expect(try line() == #"{"seq":2,"event":"value","value":2}"#)
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
    }

    @Test func token_decidesWhatIsAllowed() throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", #"{"rules":{"$uid":{".write":"auth.uid == $uid && auth.token.email_verified == true"}}}"#)
        let hub = try RunningHub(["--port", "0", "--memory", "--dev", "--rules", rules], folder: folder)
        let ana = try Command.run(
            "token", "mint", "--uid", "ana", "--claims", #"{"email_verified":true}"#).output.trimmingCharacters(in: .newlines)
        let eve = try Command.run("token", "mint", "--uid", "ana").output.trimmingCharacters(in: .newlines)
        #expect(try Command.run("set", hub.url + "/ana", "1", "--auth", ana).code == 0)
        #expect(try Command.run("set", hub.url + "/eve", "1", "--auth", ana).error.contains("permission_denied"))
        #expect(try Command.run("set", hub.url + "/ana", "2", "--auth", eve).code == 1)
        #expect(try Command.run("set", hub.url + "/ana", "2").code == 1)
        #expect(try Command.run("get", hub.url + "/ana", "--auth", "owner").output == "1\n")
        #expect(try Command.run("get", hub.url + "/ana", "--auth", "rubbish").error.contains("--auth"))
    }

    @Test func get_countsAndExplains() throws {
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"])
        #expect(try Command.run("set", hub.url + "/p", #"{"a":{"s":1},"b":{"s":2},"c":3}"#).code == 0)
        #expect(try Command.run("get", hub.url + "/p", "--count").output == "3\n")
        #expect(try Command.run("get", hub.url + "/p", "--where", "s >= 1", "--count").output == "2\n")
        #expect(try Command.run("get", hub.url + "/p", "--limit", "2", "--explain").output
            == #"{"children":3,"index":".key","looks":2,"start":"order"}"# + "\n")
        #expect(try Command.run("get", hub.url + "/p", "--explain").output == #"{"children":3,"start":"place"}"# + "\n")
        #expect(try Command.run("get", hub.url + "/p", "--count", "--shallow").code == 64)
        #expect(try Command.run("get", hub.url + "/p", "--explain", "--format", "table").code == 64)
    }

    @Test func noHub_saysWhatToDo() throws {
        let hub = try RunningHub(["--port", "0", "--memory"])
        _ = hub.stop()
        for arguments in [["get"], ["watch"], ["remove"]] {
            let result = try Command.run(arguments[0], hub.url + "/a")
            #expect(result.code == 1)
            #expect(result.error.contains("nothing listens") && result.error.contains("vigla serve"))
        }
        #expect(try Command.run("health", hub.url).code == 1)
    }

    /// Command lines are visible to every user of the machine.
    @Test func secret_isTakenFromAFileOrTheEnvironment() throws {
        let folder = try TemporaryFolder()
        _ = try folder.file("secret.txt", "owner\n")
        _ = try folder.file("rules.json", #"{"rules":{}}"#)
        let hub = try RunningHub(["--port", "0", "--memory", "--dev", "--rules", "rules.json"], folder: folder)
        let denied = try Command.run("get", hub.url + "/a", in: folder.url)
        #expect(denied.code == 1 && denied.error.contains("none of --auth-file, --auth, VIGLA_AUTH_FILE and VIGLA_AUTH is set"))
        #expect(try Command.run("set", hub.url + "/a", "1", "--auth-file", "secret.txt", in: folder.url).code == 0)
        let ways = [["VIGLA_AUTH": "owner"], ["VIGLA_AUTH_FILE": "secret.txt"]]
        for environment in ways {
            #expect(try Command.run("get", hub.url + "/a", environment: environment, in: folder.url).output == "1\n")
        }
        let watched = try Command.run("watch", hub.url + "/a", "--count", "1", environment: ways[1], in: folder.url)
        #expect(watched.output.contains(#""value":1"#))
    }

    /// Accepts this many connections on a port and closes each.
    private func refuse(_ attempts: Int, port: UInt16) throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(listener) }
        var one: Int32 = 1
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let isBound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(listener, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
        try #require(isBound == 0 && listen(listener, 8) == 0)
        for _ in 0..<attempts { close(accept(listener, nil, nil)) }
    }

    /// The hub is away for several attempts.
    @Test func watch_saysOnceThatItTriesAgain() throws {
        let folder = try TemporaryFolder()
        let first = try RunningHub(["--port", "0", "--memory", "--dev"], folder: folder)
        let port = try #require(first.url.split(separator: ":").last)
        let (output, error) = (Pipe(), Pipe())
        let process = try Command.start(
            ["watch", first.url + "/n"], output: .handle(output.fileHandleForWriting), error: .handle(error.fileHandleForWriting))
        try output.fileHandleForWriting.close()
        try error.fileHandleForWriting.close()
        func line(_ pipe: Pipe) throws -> String {
            var line = Data()
            while let byte = try pipe.fileHandleForReading.read(upToCount: 1), byte.first != 0x0A, !byte.isEmpty { line.append(byte) }
            return String(decoding: line, as: UTF8.self)
        }
        #expect(try line(output).contains("null"))
        #expect(first.stop() == 0)
        #expect(try line(error).contains("Trying again."))
        try refuse(3, port: UInt16(String(port)) ?? 0)
        let second = try RunningHub(["--port", String(port), "--memory", "--dev"], folder: folder)
        #expect(try line(error) == "vigla: connected again")
        #expect(try line(output) == #"{"seq":0,"event":"reset"}"#)
        process.terminate()
        process.waitUntilExit()
        _ = second.stop()
    }

    @Test func wrongUsage_is64_andNamesTheArgument() throws {
        let bad = try Command.run("get", "http://127.0.0.1:9/a.b")
        #expect(bad.code == 64)
        #expect(bad.error.contains("a.b"))
        #expect(try Command.run("watch", "http://127.0.0.1:9/a", "--events", "fallen").code == 64)
        #expect(try Command.run("dance").code == 64)
        #expect(try Command.run("token", "mint", "--uid", "a", "--claims", "[]").code == 64)
    }

    @Test(arguments: ["{", "hello", "{} {}", "1,\"path\":\"/b\""]) func valueThatIsNoJSON_isRefusedWithItsPlace(_ json: String) throws {
        let result = try Command.run("set", "http://127.0.0.1:9/a", json)
        #expect(result.code == 1)
        #expect(result.error.contains("not JSON at 1:") && result.error.contains("single quotes"))
    }

    @Test func valueThatCannotBeStored_isRefusedInTheHubsWords() throws {
        #expect(try Command.run("set", "http://127.0.0.1:9/a", #"{"x#":1}"#).error.contains("x#"))
        #expect(try Command.run("update", "http://127.0.0.1:9/a", #"{"b":1,"b/c":2}"#).code == 1)
        #expect(try Command.run("update", "http://127.0.0.1:9/a", "5").code == 1)
    }

    @Test func health_isZeroWhenTheHubAnswers() throws {
        let hub = try RunningHub(["--port", "0", "--memory"])
        #expect(try Command.run("health", hub.url).code == 0)
        let port = hub.url.split(separator: ":").last.map(String.init) ?? ""
        #expect(try Command.run("health", environment: ["VIGLA_PORT": port]).code == 0)
    }

    @Test func rulesCheck_countsRules_orNamesLineAndColumn() throws {
        let folder = try TemporaryFolder()
        let good = try folder.file(
            "good.json", "{ // rules\n \"rules\": { \".read\": true, \"a\": { \".write\": \"auth != null\", \".indexOn\": \"b\" } } }")
        let fine = try Command.run("rules", "check", good)
        #expect(fine.code == 0)
        #expect(fine.output == "\(good): ok (2 rules)\n")
        let bad = try folder.file("bad.json", "{\"rules\":{\n  \".read\": \"auth.nobody(\"\n}}")
        let faulty = try Command.run("rules", "check", bad)
        #expect(faulty.code == 1)
        #expect(faulty.error.hasPrefix("\(bad):2:"))
        #expect(try Command.run("rules", "check", "none.json").error == "none.json: no such file or directory\n")
    }

    @Test func version_isPrinted() throws {
        #expect(try Command.run("--version").output.hasPrefix("vigla "))
    }

    @Test func help_namesEveryCommand() throws {
        let help = try Command.run("--help").output
        for name in ["serve", "get", "watch", "set", "update", "push", "remove", "export", "import", "rules", "token", "health"] {
            #expect(help.contains("  \(name) "))
        }
        #expect(try Command.run("token", "mint", "--help").output.contains("--dev"))
    }
}
