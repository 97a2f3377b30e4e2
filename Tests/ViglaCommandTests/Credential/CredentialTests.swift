import Foundation
import Testing
import TestSupport

/// All commands take a credential in the same way; also the secret that a hub's first start creates.
@Suite(.timeLimit(.minutes(30))) struct CredentialTests {
    private func mode(_ path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    @Test func firstStart_leavesASecretInTheFolder_once() throws {
        let folder = try TemporaryFolder()
        let data = folder.url.appendingPathComponent("data").path
        let file = data + "/admin-secret.txt"
        let first = try RunningHub(["--port", "0", "--data", data], folder: folder)
        let secret = try String(contentsOfFile: file, encoding: .utf8).trimmingCharacters(in: .newlines)
        #expect(try secret.utf8.count == 40 && mode(file) == 0o600)
        #expect(first.error.contains("made the first administrator's secret: \(file)") && !first.error.contains(secret))
        let rules = try folder.file("rules.json", #"{"rules":{".read":true}}"#)
        #expect(try Command.run("rules", "deploy", first.url, rules, "--auth-file", file).code == 0)
        let list = try Command.run("secret", "list", first.url, "--auth-file", file).output
        #expect(list.hasSuffix("first\n"))
        #expect(try Command.run("secret", "remove", first.url, "--auth-file", file, "--id", String(list.prefix(8))).code == 0)
        #expect(first.stop() == 0)
        try FileManager.default.removeItem(atPath: file)

        let second = try RunningHub(["--port", "0", "--data", data], folder: folder)
        #expect(!FileManager.default.fileExists(atPath: file), "one that was revoked does not come back")
        #expect(!second.error.contains("first administrator"))
    }

    @Test func secretIsLeft_afterAnImport_andNotInDevelopment() throws {
        let folder = try TemporaryFolder()
        let file = folder.url.appendingPathComponent("data/admin-secret.txt").path
        _ = try folder.file("in.json", "1")
        #expect(try Command.run("import", "data", "in.json", in: folder.url).code == 0)
        let dev = try RunningHub(["--port", "0", "--data", "data", "--dev"], folder: folder)
        #expect(dev.stop() == 0 && !FileManager.default.fileExists(atPath: file))
        let closed = try RunningHub(["--port", "0", "--data", "data"], folder: folder)
        #expect(try Command.run("get", closed.url, "--auth-file", file).output == "1\n")
    }

    @Test func everyCommand_takesTheCredentialInTheSameWays_andSaysWhatWasTried() throws {
        let folder = try TemporaryFolder()
        let hub = try RunningHub(["--port", "0", "--data", "data"], folder: folder)
        let file = folder.url.appendingPathComponent("data/admin-secret.txt").path
        let secret = try String(contentsOfFile: file, encoding: .utf8).trimmingCharacters(in: .newlines)
        let (wrong, value) = (try folder.file("wrong.txt", "wrong\n"), try folder.file("value.json", "1"))
        let rules = try folder.file("rules.json", #"{"rules":{}}"#)
        #expect(try Command.run("user", "add", hub.url, "--uid", "ana", "--auth-file", file).code == 0)
        let commands = [
            ["set", hub.url + "/a", "1"], ["get", hub.url + "/a"], ["watch", hub.url + "/a", "--count", "1"],
            ["update", hub.url, #"{"a":1}"#], ["push", hub.url + "/list", "1"], ["remove", hub.url + "/list"],
            ["export", hub.url, folder.url.appendingPathComponent("out.json").path], ["import", hub.url, value],
            ["rules", "deploy", hub.url, rules, "--dry-run"], ["secret", "list", hub.url], ["user", "list", hub.url],
            ["token", "mint", hub.url, "--user", "ana"],
        ]
        for command in commands {
            let none = try Command.run(command)
            let isTold = none.error.contains("no credential was given: none of --auth-file, --auth,")
            #expect(none.code == 1 && isTold, "\(command) \(none.error)")
            #expect(none.error.contains("admin-secret.txt"), "what to type: \(command)")
            let refused = try Command.run(command, environment: ["VIGLA_AUTH_FILE": wrong])
            #expect(refused.code == 1 && refused.error.contains("VIGLA_AUTH_FILE"), "\(command) \(refused.error)")
            let ways: [([String], [String: String])] = [
                (["--auth", secret], [:]), (["--auth-file", file], ["VIGLA_AUTH": "wrong"]), ([], ["VIGLA_AUTH": secret]),
                ([], ["VIGLA_AUTH_FILE": file]),
            ]
            for (arguments, environment) in ways {
                let done = try Command.run(command + arguments, environment: environment)
                #expect(done.code == 0, "\(command) \(arguments) \(environment) \(done.error)")
            }
        }
        #expect(try Command.run("get", hub.url, "--auth", "a", "--auth-file", "b").code == 64)
    }

    @Test func dataVariable_namesTheFolderOfEveryCommandThatOpensOne() throws {
        let folder = try TemporaryFolder()
        let environment = ["VIGLA_DATA": "kept"]
        func run(_ arguments: String...) throws -> Command.Result { try Command.run(arguments, environment: environment, in: folder.url) }
        _ = try folder.file("in.json", #"{"a":1}"#)
        #expect(try run("import", "in.json").code == 0)
        #expect(try run("export", "-").output == "{\"a\":1}\n")
        #expect(try run("secret", "add").code == 0)
        #expect(try run("secret", "list").output.split(separator: "\n").count == 1)
        #expect(try run("backup", "--to", "copy").output.hasPrefix("kept is copied to copy"))
        #expect(try run("backup", "--restore", "--from", "copy", "--replace").output.hasPrefix("copy is copied to kept"))
        #expect(try Command.run("export", "-", in: folder.url).code == 64)
        let hub = try RunningHub(["--port", "0"], environment: environment, folder: folder)
        #expect(hub.readyLine.contains("data kept"))
        #expect(try run("secret", "list", hub.url, "--data", "kept").code == 64)
    }

    /// README's deploy line must not lock out all users by a file that grants nothing.
    @Test func rulesThatGrantNothing_areDeployedOnRequestOnly() throws {
        let folder = try TemporaryFolder()
        let open = try folder.file("open.json", #"{"rules":{".read":true}}"#)
        let closed = try folder.file("closed.json", #"{"rules":{".read":false,".write": false}}"#)
        let hub = try RunningHub(["--port", "0", "--memory", "--dev", "--rules", open], folder: folder)
        let refused = try Command.run("rules", "deploy", hub.url, closed, "--auth", "owner")
        #expect(refused.code == 1 && refused.error.contains("grants nothing") && refused.error.contains("--deny-all"), "\(refused.error)")
        #expect(try Command.run("get", hub.url + "/a").code == 0, "the rules before are in force")
        #expect(try Command.run("rules", "deploy", hub.url, closed, "--auth", "owner", "--dry-run").code == 0)
        #expect(try Command.run("rules", "deploy", hub.url, closed, "--auth", "owner", "--deny-all").code == 0)
        #expect(try Command.run("get", hub.url + "/a").code == 1)
        #expect(try Command.run("rules", "deploy", hub.url, closed, "--auth", "owner").code == 0, "nothing changes")
    }

    /// Log collectors take one object per line.
    @Test func jsonLog_isJSONInEveryLine() throws {
        func areObjects(_ text: String) -> Bool {
            text.split(separator: "\n").allSatisfy {
                (try? JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])?["message"] != nil
            }
        }
        let folder = try TemporaryFolder()
        let hub = try RunningHub(["--port", "0", "--data", "data", "--log-format", "json", "--log-level", "debug"], folder: folder)
        let dev = try RunningHub(["--port", "0", "--memory", "--dev", "--log-format", "json"], environment: ["VIGLA_NO_OPTION": "1"])
        _ = try hub.page("/.health")
        #expect(hub.stop() == 0 && dev.stop() == 0)
        for log in [hub.error, dev.error, hub.readyLine, dev.readyLine] { #expect(areObjects(log) && !log.isEmpty, "\(log)") }
        #expect(hub.readyLine.contains("vigla ready on http://127.0.0.1:"))
        let faulty = try Command.run("serve", "--log-format", "json", "--port", "x", "--loops", "y")
        #expect(faulty.code == 78 && areObjects(faulty.error) && faulty.error.split(separator: "\n").count == 2)
    }
}
