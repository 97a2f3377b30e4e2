import Foundation
import Testing
import TestSupport

/// `vigla rules deploy` against a real hub.
@Suite(.timeLimit(.minutes(30))) struct RulesDeployTests {
    private static let readable = "{\"rules\":{\n  // all of a\n  \"a\": { \".read\": true }\n}}"

    private func hub(_ folder: TemporaryFolder, _ arguments: String...) throws -> RunningHub {
        try RunningHub(["--port", "0", "--dev", "--data", "kept"] + arguments, folder: folder)
    }

    @Test func deployedRules_holdAtOnce_andAfterARestart() throws {
        let folder = try TemporaryFolder()
        let file = try folder.file("next.json", Self.readable)
        let first = try hub(folder)
        let result = try Command.run("rules", "deploy", first.url, file, environment: ["VIGLA_AUTH": "owner"])
        #expect(result.code == 0, "\(result.error)")
        let place = first.url.dropFirst("http://".count)
        #expect(result.output == "\(file): deployed to \(place): rules: 1 added, 2 removed\n  + /a.read\n  - /.read\n  - /.write\n")
        #expect(try Command.run("get", first.url + "/a").code == 0)
        #expect(try Command.run("get", first.url + "/b").code == 1)
        #expect(first.stop() == 0)
        let second = try hub(folder)
        #expect(second.readyLine.hasSuffix("rules deployed)"))
        #expect(!second.error.contains("There are no rules"))
        #expect(try Command.run("get", second.url + "/a").code == 0)
        #expect(try Command.run("get", second.url + "/b").code == 1)
        #expect(try Command.run("rules", "deploy", second.url, file, "--auth", "owner").output.hasSuffix("the same text as in force\n"))
    }

    @Test func faultyRules_areShownWithTheirLines_andChangeNothing() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder)
        let file = try folder.file("next.json", "{\"rules\":{\n\t\"a\": { \".read\": \"dta.exists()\" },\n  \".write\": 5\n}}")
        let result = try Command.run("rules", "deploy", hub.url, file, environment: ["VIGLA_AUTH": "owner"])
        #expect(result.code == 1 && result.output == "")
        #expect(result.error.contains("\(file):2:19: Unknown variable 'dta'. (did you mean 'data'?)\n    \t\"a\": { \".read\": "
            + "\"dta.exists()\" },\n    \t                 ^\n"), "\(result.error)")
        #expect(result.error.contains("\(file):3:13: Invalid rule expression."))
        #expect(result.error.contains("not deployed"))
        #expect(try Command.run("get", hub.url + "/b").code == 0)
    }

    @Test func dryRun_saysWhatWouldChange_andWarns() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder)
        let file = try folder.file("next.json", #"{"rules":{".read":true,"$x":{".write":"auth.uid != null"}}}"#)
        let result = try Command.run("rules", "deploy", hub.url, file, "--dry-run", environment: ["VIGLA_AUTH": "owner"])
        #expect(result.code == 0)
        #expect(
            result.output.contains("could be deployed to") && result.output.contains("+ /$x.write") && result.output.contains("- /.write"))
        #expect(result.error.contains("warning: .read at the root hands out everything"))
        #expect(try Command.run("set", hub.url + "/anything", "1").code == 0)
    }

    /// The last change wins, whether of the file or by a deploy.
    @Test func deployOverAFile_holdsUntilTheFileChanges() throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", #"{"rules":{}}"#)
        let next = try folder.file("next.json", Self.readable)
        let first = try hub(folder, "--rules", rules)
        #expect(try Command.run("get", first.url + "/a").code == 1)
        let deployed = try Command.run("rules", "deploy", first.url, next, "--auth", "owner")
        #expect(deployed.output.contains("until the hub's rules file changes (--rules \(rules))"), "\(deployed.error)")
        #expect(first.stop() == 0)
        let second = try hub(folder, "--rules", rules)
        #expect(second.readyLine.hasSuffix("rules deployed after \(rules))"))
        #expect(try Command.run("get", second.url + "/a").code == 0)
        #expect(second.stop() == 0)
        _ = try folder.file("rules.json", #"{"rules":{"b":{".read":true}}}"#)
        let third = try hub(folder, "--rules", rules)
        #expect(third.readyLine.hasSuffix("rules \(rules))"))
        #expect(try Command.run("get", third.url + "/a").code == 1)
        #expect(try Command.run("get", third.url + "/b").code == 0)
    }

    @Test func longListOfChanges_isShownOnDemand() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder)
        func rules(_ count: Int) throws -> String {
            let places = (0..<count).map { "\"p\($0)\":{\".read\":true}" }.joined(separator: ",")
            return try folder.file("next.json", "{\"rules\":{\(places)}}")
        }
        func lines(_ count: Int, _ options: String...) throws -> [Substring] {
            let result = try Command.run(["rules", "deploy", hub.url, try rules(count), "--dry-run", "--auth", "owner"] + options)
            return result.output.split(separator: "\n").filter { $0.hasPrefix("  +") }
        }
        #expect(try lines(10).count == 10 && lines(11).count == 11, "ten, and a line about the others")
        #expect(try lines(11).last == "  + … 1 more (--verbose)" && lines(11, "--verbose").last?.hasPrefix("  + /p") == true)
    }

    /// A deploy waits for the derived data that its rules require.
    @Test func deployOfCounters_waitsUntilTheyHold() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder)
        #expect(try Command.run("set", hub.url + "/", #"{"e":{"x":{"t":1}},"v":{"x":{"a":1}}}"#, "--auth", "owner").code == 0)
        let file = try folder.file("next.json", #"{"rules":{".read":true,"e":{"$e":{".counts":{"n":"count(v/$e)"}}}}}"#)
        let waited = try Command.run("rules", "deploy", hub.url, file, "--auth", "owner")
        let last = waited.output.split(separator: "\n").last
        #expect(waited.code == 0 && last?.hasPrefix("counters: complete after ") == true, "\(waited.error)")
        #expect(try Command.run("get", hub.url + "/e/x/n").output == "1\n")
        let other = try Command.run("rules", "deploy", hub.url, file, "--auth", "owner", "--no-wait")
        #expect(other.code == 0 && !other.output.contains("complete after"))
        let dry = try Command.run("rules", "deploy", hub.url, file, "--auth", "owner", "--dry-run")
        #expect(dry.code == 0 && !dry.output.contains("complete after"))
    }

    @Test func credential_comesFromManyPlaces_andIsNeeded() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder)
        let (file, secret) = (try folder.file("next.json", Self.readable), try folder.file("secret.txt", "owner\n"))
        let without = try Command.run("rules", "deploy", hub.url, file)
        #expect(
            without.code == 1 && without.error.contains("This takes an administrator") && without.error.contains("VIGLA_AUTH"),
            "\(without.error)")
        #expect(try Command.run("rules", "deploy", hub.url, file, environment: ["VIGLA_AUTH": "wrong"]).code == 1)
        #expect(try Command.run("get", hub.url + "/b").code == 0)
        for (arguments, environment, input) in [
            (["--auth-file", secret], [:], nil), (["--auth-file", "-"], [:], "owner\n"), ([], ["VIGLA_AUTH_FILE": secret], nil),
            (["--auth", "owner"], ["VIGLA_AUTH": "wrong"], nil),
        ] as [([String], [String: String], String?)] {
            let result = try Command.run(["rules", "deploy", hub.url, file] + arguments, environment: environment, input: input)
            #expect(result.code == 0, "\(arguments): \(result.error)")
        }
        #expect(try Command.run("rules", "deploy", hub.url, file, "--auth-file", "none.txt").error.contains("no such file"))
        #expect(try Command.run("rules", "deploy", hub.url + "/a", file, "--auth", "owner").code == 64)
        #expect(hub.stop() == 0)
        #expect(try Command.run("rules", "deploy", hub.url, file, "--auth", "owner").error.contains("Is the hub running"))
    }

    @Test func namespace_isThatOfTheOptionOrTheURL() throws {
        let folder = try TemporaryFolder()
        let hub = try hub(folder)
        let file = try folder.file("next.json", Self.readable)
        #expect(try Command.run("rules", "deploy", hub.url + "?ns=one", file, "--auth", "owner").code == 0)
        #expect(try Command.run("rules", "deploy", hub.url, file, "--namespace", "two", "--auth", "owner").code == 0)
        #expect(try Command.run("get", hub.url + "/b?ns=one").code == 1)
        #expect(try Command.run("get", hub.url + "/b?ns=two").code == 1)
        #expect(try Command.run("get", hub.url + "/b").code == 0)
    }
}
