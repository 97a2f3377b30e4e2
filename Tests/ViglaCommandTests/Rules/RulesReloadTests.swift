import Foundation
import Testing
import TestSupport

/// Rules of a running hub, from the outside.
@Suite(.timeLimit(.minutes(30))) struct RulesReloadTests {
    @Test func sighup_readsTheRulesFileAgain_andAFaultyOneChangesNothing() throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", #"{"rules":{}}"#)
        let hub = try RunningHub(["--port", "0", "--memory", "--rules", rules], folder: folder)
        #expect(try Command.run("get", hub.url + "/a").code == 1)

        _ = try folder.file("rules.json", #"{"rules":{"a":{".read":true}}}"#)
        kill(hub.process.processIdentifier, SIGHUP)
        #expect(try becomes { try Command.run("get", hub.url + "/a").code == 0 }, "\(hub.error)")

        _ = try folder.file("rules.json", "{\"rules\":{\n \".read\": \"dta.exists()\",\n \".write\": \"1 +\"\n}}")
        kill(hub.process.processIdentifier, SIGHUP)
        #expect(becomes { hub.error.contains("\(rules):3:") })
        #expect(hub.error.contains("\(rules):2:12: Unknown variable 'dta'. (did you mean 'data'?)"))
        #expect(hub.error.contains("the rules before stay in force"))
        #expect(try Command.run("get", hub.url + "/a").code == 0)
        #expect(try Command.run("get", hub.url + "/b").code == 1)

        try FileManager.default.removeItem(atPath: rules)
        kill(hub.process.processIdentifier, SIGHUP)
        #expect(becomes { hub.error.contains("no such file") })
        #expect(hub.stop() == 0)
    }

    /// The check that `systemctl reload` runs first.
    @Test func check_endsWithTheFaults_andOpensNothing() throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", #"{"rules":{}}"#)
        let good = try Command.run("serve", "--check", "--data", "data", "--rules", rules, in: folder.url)
        #expect(good.code == 0 && good.output.isEmpty && good.error.isEmpty, "\(good)")
        _ = try folder.file("rules.json", #"{"rules":{".read":"dta.exists()"}}"#)
        let faulty = try Command.run(
            "serve", "--check", "--data", "data", environment: ["VIGLA_RULES": rules, "VIGLA_TLS_CERT": "none.pem", "VIGLA_TLS_KEY": "k"],
            in: folder.url)
        #expect(faulty.code == 78 && faulty.error.contains("Unknown variable 'dta'") && faulty.error.contains("none.pem"), "\(faulty)")
        #expect(!FileManager.default.fileExists(atPath: folder.at("data")))
    }

    @Test func start_printsTheWarningsOfTheRules() throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", #"{"rules":{".read":true}}"#)
        let hub = try RunningHub(["--port", "0", "--memory", "--rules", rules], folder: folder)
        #expect(hub.error.contains("\(rules):1:19: warning: .read at the root hands out everything"))
    }

    @Test(arguments: [false, true]) func refusals_areLogged_whenAskedFor(_ isAskedFor: Bool) throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", #"{"rules":{"a":{".read":"auth.uid == 'ada'"}}}"#)
        let hub = try RunningHub(
            ["--port", "0", "--memory", "--dev", "--rules", rules] + (isAskedFor ? ["--log-refusals", "10"] : []), folder: folder)
        let token = try Command.run("token", "mint", "--uid", "eve").output.filter { $0 != "\n" }
        let refused = try Command.run("get", hub.url + "/a", "--auth", token)
        #expect(refused.code == 1 && !refused.error.contains("ada"))
        if isAskedFor {
            #expect(becomes { hub.error.contains("refused by the rules") })
            let line = hub.error.split(separator: "\n").first { $0.contains("refused by the rules") } ?? ""
            #expect(line.contains("operation=get path=/a") && line.contains(#"auth.uid = \"eve\""#))
            #expect(!line.contains(token))
        }
        #expect(hub.stop() == 0)
        #expect(hub.error.contains("refused by the rules") == isAskedFor)
    }

    @Test(arguments: [
        ("", "1:1: Parse error. (the file is empty; the least is {\"rules\": {}}, which denies everything)"),
        (" // nothing\n", "1:1: Parse error. (there is nothing but space and comments"),
        ("rules: {}", "1:1: Parse error. (expected JSON"), ("\u{7F}ELF", "1:1: Parse error. (a file of rules is JSON"),
        ("{\"rules\":{}} }", "1:14: Parse error. (the file should end here"),
    ]) func fileThatIsNoRules_isRefused_withWhatWasFound(_ text: String, _ words: String) throws {
        let folder = try TemporaryFolder()
        let file = try folder.file("rules.json", text)
        let result = try Command.run("rules", "check", file)
        #expect(result.code == 1 && result.error.contains("\(file):\(words)"), "\(result.error)")
    }

    @Test(arguments: [
        ([0x89, 0x50, 0x4E, 0x47], "1:1: Parse error. (this is no text file"),
        (Array("{\"rules\":{},\"a".utf8) + [0xFF, 0x7D], "1:15: Parse error. (this byte is no UTF-8"),
        ([0x7B, 0, 0x22, 0], "1:2: Parse error. (this byte is no UTF-8"),
    ])
    func fileThatIsNoText_isRefused_withWhatWasFound(_ bytes: [UInt8], _ words: String) throws {
        let folder = try TemporaryFolder()
        let file = try folder.file("rules.json", "")
        try Data(bytes).write(to: URL(fileURLWithPath: file))
        let result = try Command.run("rules", "check", file)
        #expect(result.code == 1 && result.error.contains("\(file):\(words)"), "\(result.error)")
    }

    @Test func emptyCases_fail() throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", #"{"rules":{}}"#)
        for text in [#"{"cases":[]}"#, "{}", ""] {
            let result = try Command.run("rules", "test", rules, try folder.file("cases.json", text))
            #expect(result.code == 1 && result.error.contains("cases.json:1:"), "\(result.error)")
        }
    }
}
