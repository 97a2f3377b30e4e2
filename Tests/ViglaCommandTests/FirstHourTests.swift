import Foundation
import Testing
import TestSupport

/// Commands that a new user types in the first hour, mistakes included: every refusal names the mistake and the command to type.
@Suite(.timeLimit(.minutes(30))) struct FirstHourTests {
    private static let rules = """
        {"rules":{"users":{"$uid":{".read":"auth != null && auth.token.role === 'staff' || auth.uid === $uid"}},
          "players":{".read":true,".write":true},"pages":{".read":true}}}
        """

    private func hub(_ folder: TemporaryFolder, _ options: String...) throws -> RunningHub {
        let rules = try folder.file("rules.json", Self.rules)
        return try RunningHub(["--port", "0", "--rules", rules] + options, folder: folder)
    }

    @Test func explain_tellsObjectsFromNull_andDoesNotRepeatTheVerdict() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder, "--memory", "--dev")
        func explain(_ user: String) throws -> Command.Result {
            try Command.run("rules", "explain", hub.url + "/users/ada", "--as", user, "--auth", "owner")
        }
        let allowed = try explain("ada")
        #expect(allowed.code == 0 && allowed.output.hasPrefix("allowed: read /users/ada as ada\n"), "\(allowed.output)")
        #expect(allowed.output.contains(" auth = an object\n") && allowed.output.contains(" auth.token.role = null\n"))
        let denied = try explain("eve")
        #expect(denied.code == 0 && denied.output.hasPrefix("denied: read /users/ada as eve: No .read rule"), "an answer came")
        #expect(try Command.run("rules", "explain", "--help").output.contains("Exits with 0 when the hub has answered"))
    }

    @Test func explain_looksUpAddresses_andRefusesStrangers() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder, "--memory", "--dev")
        let made = try Command.run("user", "add", hub.url, "--email", "ada@example.org", "--uid", "ada", "--no-password", "--auth", "owner")
        #expect(made.code == 0, "\(made.error)")
        func explain(_ options: String...) throws -> Command.Result {
            try Command.run(["rules", "explain", hub.url + "/users/ada", "--auth", "owner"] + options)
        }
        let known = try explain("--as", "ada@example.org")
        #expect(known.output.hasPrefix("allowed: read /users/ada as ada (ada@example.org)\n"), "\(known.output) \(known.error)")
        let unknown = try explain("--as", "eve@example.org")
        #expect(unknown.code == 1 && unknown.error.contains("no account of this hub has the address eve@example.org"), "\(unknown.error)")
        #expect(unknown.error.contains("vigla user list") && unknown.output.isEmpty)
        #expect(unknown.error.contains("type: --as 'eve@example.org' --literal"))
        #expect(try explain("--as", "eve@example.org", "--literal").output.hasPrefix("denied: read /users/ada as eve@example.org: "))
        #expect(try explain("--as", "").code == 64)
    }

    @Test func explain_onAHubWithoutAccounts_saysHowAnAddressIsAnId() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder, "--memory", "--dev", "--accounts", "off")
        let command = ["rules", "explain", hub.url + "/users/ada", "--auth", "owner", "--as", "ada@example.org"]
        let refused = try Command.run(command)
        #expect(refused.code == 1 && refused.error.contains("has no accounts"), "\(refused)")
        #expect(refused.error.contains("type: --as 'ada@example.org' --literal"), "\(refused)")
        #expect(try Command.run(command + ["--literal"]).output.hasPrefix("denied: read /users/ada as ada@example.org"))
    }

    @Test func missingIndex_isNamedAsALineOfTheRulesFile() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder, "--memory", "--dev")
        #expect(try Command.run("set", hub.url + "/players", #"{"ana":{"score":3}}"#).code == 0)
        let refused = try Command.run("get", hub.url + "/players", "--order-by", "score")
        #expect(refused.code == 1 && refused.error.contains(#"{ "rules": { "players": { ".indexOn": "score" } } }"#), "\(refused.error)")
        #expect(refused.error.contains("also with --dev"))
        let byValue = try Command.run("get", hub.url + "/players/ana", "--order-by", "value")
        #expect(byValue.error.contains(#""players": { "ana": { ".indexOn": ".value" } }"#), "\(byValue.error)")
    }

    /// A missing namespace is not reported as a wrong credential.
    @Test func unknownNamespace_isNamed_byEveryCommand() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder, "--data", "data")
        let (address, file) = (hub.url + "/players?ns=demo", folder.url.appendingPathComponent("data/admin-secret.txt").path)
        let commands = [
            ["get", address], ["get", address, "--shallow"], ["set", address, "1"], ["watch", address, "--count", "1"],
            ["rules", "get", hub.url + "?ns=demo"], ["rules", "explain", address], ["rules", "deploy", hub.url + "?ns=demo", "rules.json"],
        ]
        for command in commands {
            let result = try Command.run(command + ["--auth-file", file], in: folder.url)
            #expect(result.code == 1 && result.error.contains("Unknown namespace 'demo' (by ns=). This server holds: default."))
            #expect(!result.error.contains(file) && !result.error.contains("{"), "\(command) \(result.error)")
        }
        #expect(try Command.run("get", address).error.contains("leave ?ns= out"))
    }

    @Test func refusalsOfAdministration_areSentences() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder, "--memory")
        for command in [["rules", "get", hub.url], ["rules", "explain", hub.url + "/a"], ["export", hub.url, "-"]] {
            let result = try Command.run(command)
            #expect(result.code == 1 && result.error.contains("refuses this (401). This takes an administrator"), "\(result.error)")
            #expect(!result.error.contains("{") && result.error.contains("Type --auth-file FILE"))
        }
    }

    @Test func swappedArguments_areRecognised() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder, "--memory", "--dev")
        _ = try folder.file("data.json", "1")
        try FileManager.default.createDirectory(at: folder.url.appendingPathComponent("data"), withIntermediateDirectories: true)
        let bare = String(hub.url.dropFirst("http://".count))
        for command in [
            ["rules", "deploy", "rules.json", hub.url], ["rules", "deploy", "rules.json", bare], ["import", "data.json", hub.url],
            ["import", "data.json", "data"], ["user", "import", "data.json", hub.url],
        ] {
            let result = try Command.run(command, in: folder.url)
            let isTold = result.error.contains("comes first") || result.error.contains("the other way round")
            #expect(result.code == 64 && isTold, "\(command) \(result.error)")
        }
        let value = try Command.run("set", #"{"a":1}"#, hub.url)
        #expect(value.code == 64 && value.error.contains("the address comes first: vigla set URL JSON"), "\(value.error)")
    }

    @Test func addressesOfAWholeHub_haveNoPath() throws {
        for command in [
            ["user", "list"], ["user", "add"], ["token", "mint", "--user", "ana"], ["secret", "list"], ["rules", "get"], ["health"],
        ] {
            let result = try Command.run(command + ["http://127.0.0.1:9000/users"])
            #expect(result.code == 64 && result.error.contains("leave out the path (/users)"), "\(command) \(result.error)")
        }
        let credential = try Command.run("user", "list", "http://127.0.0.1:9000/?auth=x")
        #expect(credential.code == 64 && credential.error.contains("--auth-file"), "\(credential.error)")
    }

    @Test func priorities_areWrittenReadAndRemoved_aloneAndRefusedElsewhere() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder, "--memory", "--dev")
        let (place, priority) = (hub.url + "/players/ana", hub.url + "/players/ana/.priority")
        #expect(try Command.run("set", place, #"{"score":3}"#).code == 0)
        #expect(try Command.run("set", priority, "7").code == 0)
        #expect(try Command.run("get", priority).output == "7\n" && Command.run("get", place + "/.priority.json").output == "7\n")
        #expect(try Command.run("get", hub.url + "/players.json?format=export").output.contains(#"".priority":7"#))
        #expect(try Command.run("get", place + "/score").output == "3\n", "the place is as it was")
        #expect(try Command.run("set", priority, "true").error.isEmpty == false, "no priority")
        #expect(try Command.run("remove", priority).code == 0)
        #expect(try Command.run("get", priority).output == "null\n" && Command.run("get", place).output == "{\"score\":3}\n")
        for command in [["push", priority, "1"], ["update", priority, "{}"], ["watch", priority], ["rules", "explain", priority]] {
            let refused = try Command.run(command)
            #expect(refused.code == 64 && refused.error.contains("take the priority of a place"), "\(command) \(refused.error)")
        }
    }

    @Test func passwordsRule_isToldInASentence_beforeAnythingIsMade() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder, "--data", "data")
        let file = folder.url.appendingPathComponent("data/admin-secret.txt").path
        func add(_ password: String, _ secret: String) throws -> Command.Result {
            try Command.run(
                "user", "add", hub.url, "--email", "a@example.org", "--password-file", "-", "--auth-file", secret, input: password + "\n")
        }
        let short = try add("abc", file)
        #expect(short.error == "vigla: this hub takes passwords of 8 characters or more, and this one has 3. Nothing was changed.\n")
        let common = try add("password1", file)
        #expect(common.code == 1 && common.error == "vigla: Password is one of the commonest, choose another. Nothing was changed.\n")
        // Reported before the password prompt, for which there is no terminal here.
        let wrong = try folder.file("wrong.txt", "wrong\n")
        let refused = try Command.run("user", "add", hub.url, "--email", "a@example.org", "--auth-file", wrong)
        #expect(refused.error.contains("holds no administrator's secret"), "\(refused.error)")
        #expect(try Command.run("user", "list", hub.url, "--auth-file", file).output.isEmpty)
    }

    @Test func valuesOfOptions_mayBeginWithADash_andAreJudged() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder, "--memory", "--dev")
        for (command, text) in [
            (["get", "--last", "-1"], "--last takes 1 or more, not -1"), (["get", "--limit", "0"], "--limit takes 1 or more, not 0"),
            (["watch", "--count", "-1"], "--count takes 1 or more, not -1"),
            (["watch", "--last", "-1"], "--last takes 1 or more, not -1"),
            (["watch", "--events", "added,foo"], "there is no event 'foo'. There are value, added, changed, removed"),
            (["watch", "--events", "added,chnged"], "Did you mean 'changed'?"),
        ] {
            let result = try Command.run([command[0], hub.url + "/players"] + command.dropFirst())
            #expect(result.code == 64 && result.error.contains(text), "\(command) \(result.error)")
        }
        #expect(try Command.run("set", hub.url + "/players", #"{"a":-5,"b":-6}"#).code == 0)
        let negative = try Command.run("get", hub.url + "/players", "--order-by", "key", "--start", "-a")
        #expect(negative.output == "{\"a\":-5,\"b\":-6}\n", "\(negative.error)")
    }

    @Test func valuesThatTheShellHasStripped_areExplained() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder, "--memory", "--dev")
        let place = hub.url + "/players/a"
        for command in [["set", place, "{name:Ana}"], ["set", place, "Ana"], ["set", place, "{name:", "Ana}"], ["update", place, "{a:1}"]] {
            let result = try Command.run(command)
            let isTold = result.error.contains(#"Put single quotes around the whole value: '{"name":"Ana"}'"#)
            #expect(result.code != 0 && isTold, "\(result.error)")
        }
        #expect(try Command.run("set", place, "{name:Ana}").error.contains("this is not JSON at 1:2 (byte 2): {name:Ana}"))
        let piped = try Command.run("set", place, "-", input: "{\n a")
        #expect(piped.error == "vigla: standard input: this is not JSON at 2:2 (byte 4)\n", "\(piped.error)")
        #expect(try Command.run("user", "claims", hub.url, "ana", "{role:staff}").error.contains("single quotes"))
        #expect(try Command.run("get", place).output == "null\n")
    }

    @Test func mistakenAddresses_sayWhatToDoNext() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder, "--memory", "--dev")
        let port = String(hub.url.split(separator: ":").last ?? "")
        _ = hub.stop()
        let nobody = "http://127.0.0.1:\(port)/"
        for command in [["get", nobody], ["rules", "get", nobody], ["health", nobody]] {
            let dead = try Command.run(command)
            #expect(dead.code == 1 && dead.error.contains("nothing listens on 127.0.0.1:\(port)\nIs the hub running?"), "\(dead.error)")
            #expect(dead.error.contains("vigla serve --port \(port)"))
        }
        for command in [["get"], ["rules", "get"], ["health"]] {
            let unnamed = try Command.run(command + ["http://no-such-host.invalid:9000/"])
            #expect(unnamed.code == 1 && unnamed.error.contains("such as http://127.0.0.1:9000/users"), "\(unnamed.error)")
        }
        let live = try self.hub(folder, "--memory", "--dev")
        for command in [["get"], ["rules", "get"], ["health"]] {
            let plain = try Command.run(command + [live.url.replacingOccurrences(of: "http:", with: "https:")])
            #expect(plain.code == 1 && plain.error.contains("write http:// instead of https://"), "\(plain.error)")
        }
    }

    @Test func doctor_looksAtTheRest_whenAnOptionIsFaulty_andKnowsDeployedRules() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder, "--data", "data")
        let next = try folder.file("next.json", #"{"rules":{"a":{".read":"auth != null"}}}"#)
        let rules = folder.url.appendingPathComponent("rules.json").path
        let file = folder.url.appendingPathComponent("data/admin-secret.txt").path
        func doctor(_ options: String...) throws -> String {
            try Command.run(["doctor", "--port", "0", "--data", "data"] + options, in: folder.url).output
        }
        let none = try doctor()
        #expect(none.contains("none are deployed: everything is denied"), "\(none)")
        #expect(try Command.run("rules", "deploy", hub.url, next, "--auth-file", file).code == 0)
        // With a running hub, and without.
        for isRunning in [true, false] {
            let replaced = try doctor("--rules", rules)
            #expect(replaced.contains("deployed to namespace default: 1 rule, in place of \(rules) until that is changed"), "\(replaced)")
            let alone = try doctor()
            #expect(alone.contains("ok     rules    deployed to namespace default: 1 rule\n") && !alone.contains("is denied"), "\(alone)")
            let changed = try doctor("--rules", next)
            #expect(changed.contains("until the hub reads \(next)"), "\(changed)")
            let faulty = try doctor("--rules", "missing.json", "--loops", "0")
            for text in [
                "WRONG  options", "missing.json", "--loops", "data     data", "disk", "clock", "deployed to namespace default: 1 rule",
            ] {
                #expect(faulty.contains(text), "\(text): \(faulty)")
            }
            if isRunning { #expect(hub.stop() == 0) }
        }
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.url.appendingPathComponent("data").path)
        #expect(!files.contains { $0.hasSuffix("-wal") || $0.hasSuffix("-shm") }, "the doctor leaves nothing behind: \(files)")
    }
}
