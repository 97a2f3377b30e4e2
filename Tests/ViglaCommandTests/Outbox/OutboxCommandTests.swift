import Foundation
import JSONTree
import Testing
import TestSupport

/// `vigla outbox`, at a hub whose only device cannot be reached.
@Suite(.timeLimit(.minutes(30))) struct OutboxCommandTests {
    private static func hub() throws -> RunningHub {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", """
            {"rules":{".read":true,".write":true,"notes":{"$u":{"$n":{".notify":{"devices":"devices/$u","title":"'Lunch'","wait":0}}}}}}
            """)
        let hub = try RunningHub(["--port", "0", "--memory", "--dev", "--rules", rules], folder: folder)
        #expect(try Command.run("set", hub.url + "/devices/ana/phone", #"{"kind":"ntfy","topic":"a"}"#).code == 0)
        return hub
    }

    private func outbox(_ arguments: String...) throws -> Command.Result {
        try Command.run(["outbox"] + arguments, environment: ["VIGLA_AUTH": "owner"])
    }

    @Test func deadLetters_areListed_triedAgain_andDiscarded() throws {
        let hub = try Self.hub()
        #expect(try outbox("list", hub.url).output.isEmpty)
        for name in ["n1", "n2"] { #expect(try Command.run("set", hub.url + "/notes/ana/\(name)", "true").code == 0) }
        #expect(try becomes { try outbox("list", hub.url).output.split(separator: "\n").count == 3 })
        let lines = try outbox("list", hub.url).output.split(separator: "\n")
        #expect(lines[0].hasPrefix("ID") && lines[0].hasSuffix("REASON"))
        #expect(lines[1].contains("/notes/ana/n1  /devices/ana/phone  0") && lines[1].hasSuffix("no ntfy server is configured"))
        let object = try JSONValue(Array(try outbox("list", hub.url, "--json", "--limit", "1").output.utf8))
        let id = try #require(object["id"]?.string)
        #expect(object["title"] == "Lunch" && lines[1].hasPrefix(id))
        #expect(try outbox("discard", hub.url, "--id", id).output == "1 dead letter discarded\n")
        #expect(try outbox("discard", hub.url, "--id", id).error.contains("There is no dead letter with this id."))
        #expect(try outbox("retry", hub.url, "--all").output == "1 dead letter will be tried again\n")
        #expect(try becomes { try outbox("list", hub.url).output.contains("/notes/ana/n2") }, "nothing was put right")
        #expect(try outbox("discard", hub.url, "--all").output == "1 dead letter discarded\n")
        #expect(try outbox("list", hub.url, "--waiting").output.isEmpty)
    }

    @Test func test_namesTheDevice() throws {
        let hub = try Self.hub()
        let sent = try outbox("test", hub.url + "/devices/ana/phone", "--title", "Hello")
        #expect(sent.code == 0 && sent.output.hasSuffix(": a test for /devices/ana/phone is on its way\n"), "\(sent.error)")
        #expect(try becomes { try outbox("list", hub.url).output.contains("no ntfy server is configured") })
        let none = try outbox("test", hub.url + "/devices/ana/none")
        #expect(none.code == 1 && none.error.contains("There is no device at /devices/ana/none."))
    }

    @Test func wrongUsage_isExplained() throws {
        let url = "http://127.0.0.1:1"
        for (arguments, text) in [
            (["retry", url], "Name either one dead letter with --id, or --all."),
            (["discard", url, "--id", "a", "--all"], "Name either one dead letter with --id, or --all."),
            (["list", url + "/a"], "An outbox belongs to a whole database (?ns=NAME): leave out the path (/a)."),
            (["list", url, "--limit", "0"], "--limit is a number from 1 to 1000000."), (["test", url], "Name the device's row"),
            (["test", url + "/a?x=1"], "The address has 'x' in its query"),
        ] {
            let result = try Command.run(["outbox"] + arguments)
            #expect(result.code == 64 && result.error.contains(text), "\(arguments): \(result.error)")
        }
        let hub = try Self.hub()
        let refused = try Command.run("outbox", "list", hub.url)
        #expect(refused.code == 1 && refused.error.contains("refuses this (401)"))
    }
}
