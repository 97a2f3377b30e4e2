import Foundation
import Testing
import TestSupport

/// Administrators' secrets: created offline and at a running hub, accepted everywhere, revoked, stored as hashes.
@Suite(.timeLimit(.minutes(30))) struct SecretCommandTests {
    private func status(_ hub: RunningHub, _ target: String) throws -> String {
        String(try hub.page(target).split(separator: " ")[1])
    }

    @Test func secret_madeInTheDataFolder_administersTheHub_untilItIsRemoved() throws {
        let folder = try TemporaryFolder()
        let data = folder.url.appendingPathComponent("data").path
        let made = try Command.run("secret", "add", "--data", data, "--name", "first")
        let first = made.output.trimmingCharacters(in: .newlines)
        #expect(made.code == 0 && first.utf8.count == 40 && first.allSatisfy { $0.isLetter || $0.isNumber }, "\(made.error)")
        let list = try Command.run("secret", "list", "--data", data)
        #expect(list.output.contains("first") && !list.output.contains(first))

        let rules = try folder.file("rules.json", #"{"rules":{}}"#)
        let hub = try RunningHub(["--port", "0", "--data", data, "--rules", rules], folder: folder)
        #expect(
            try status(hub, "/.json") == "401" && status(hub, "/.json?auth=\(first)") == "200"
            && status(hub, "/.json?access_token=\(first)") == "200")
        let wrong = String(first.reversed())
        #expect(try status(hub, "/.json?auth=\(wrong)") == "401" && status(hub, "/.json?auth=owner") == "401")
        #expect(try Command.run("get", hub.url, "--auth", first).output == "null\n", "on a socket")
        #expect(try Command.run("get", hub.url, "--auth", wrong).code == 1)
        #expect(try Command.run("secret", "list", "--data", data).error.contains("give its address instead"), "the folder is the hub's now")

        let second = try Command.run(
            "secret", "add", hub.url, "--name", "second", environment: ["VIGLA_AUTH": first]).output.trimmingCharacters(in: .newlines)
        #expect(try status(hub, "/.json?auth=\(second)") == "200")
        let refused = try Command.run("secret", "add", hub.url, environment: ["VIGLA_AUTH": wrong])
        #expect(refused.code == 1 && refused.output.isEmpty)
        let lines = try Command.run("secret", "list", hub.url, environment: ["VIGLA_AUTH": second]).output.split(separator: "\n")
        #expect(lines.count == 2)
        let id = try #require(lines.first { $0.hasSuffix("first") }?.prefix(8))
        #expect(try Command.run("secret", "remove", hub.url, "--id", String(id), environment: ["VIGLA_AUTH": second]).code == 0)
        #expect(try status(hub, "/.json?auth=\(first)") == "401" && status(hub, "/.json?auth=\(second)") == "200")
        #expect(try Command.run(
            "secret", "remove", hub.url, "--id", String(id), environment: ["VIGLA_AUTH": second]).error.contains("no secret with this id"))
        #expect(hub.stop() == 0)
        for secret in [first, second] { #expect(!hub.error.contains(secret), "no secret in the log") }
        let files = try FileManager.default.contentsOfDirectory(atPath: data).map {
            try Data(contentsOf: URL(fileURLWithPath: data + "/" + $0))
        }
        for file in files { #expect(file.range(of: Data(second.utf8)) == nil, "no secret on disk") }

        let again = try RunningHub(["--port", "0", "--data", data, "--rules", rules], folder: folder)
        #expect(try status(again, "/.json?auth=\(first)") == "401" && status(again, "/.json?auth=\(second)") == "200", "across restarts")
    }

    @Test func folderWithoutData_isSaidToBeNew_andHasNoSecretsToList() throws {
        let folder = try TemporaryFolder()
        for command in [["list"], ["remove", "--id", "abc"]] {
            let none = try Command.run(["secret"] + command + ["--data", "typo"], in: folder.url)
            #expect(none.code == 1 && none.error.contains("typo holds no data"))
        }
        #expect(!FileManager.default.fileExists(atPath: folder.url.appendingPathComponent("typo").path))
        let first = try Command.run("secret", "add", "--data", "data", in: folder.url)
        #expect(first.error == "vigla: data held no data; a new hub's data begins there\n")
        let second = try Command.run("secret", "add", "--data", "data", in: folder.url)
        #expect(second.code == 0 && second.error.isEmpty && second.output.utf8.count == 41)
    }

    @Test func place_isAHubOrAFolder() throws {
        #expect(try Command.run("secret", "list").code == 64)
        #expect(try Command.run("secret", "list", "http://127.0.0.1:1", "--data", "x").code == 64)
    }
}
