import Foundation
import Testing
import TestSupport

/// `vigla export` and `vigla import` between files, folders and running hubs.
@Suite(.timeLimit(.minutes(30))) struct TransferTests {
    /// Every kind of value, in the order and form of an export.
    private static let everything = #"""
        {"-1":"negative key","0":true,"1":false,"10":9223372036854775807,"a":-9223372036854775808,"b":0.1,"c":-1.5e-07,\#
        "deep":{"1":{"2":{"3":{"4":{"5":{"6":{"7":{"8":{"9":{"10":{"11":"far"}}}}}}}}}}},"leaf":{".value":5,".priority":1},\#
        "leaf2":{".value":"text",".priority":"p"},"leaf3":{".value":false,".priority":-2.5},"object":{"x":1,".priority":"after"},\#
        "text":"line\nquote\" back\\ tab\t nul\u0000 é 日本 🦉","ключ":{"日本":{"🦉":"owl"}},".priority":3}
        """#

    private func importing(_ text: String, into folder: TemporaryFolder, _ more: String...) throws -> Command.Result {
        _ = try folder.file("in.json", text)
        return try Command.run(["import", "data", "in.json"] + more, in: folder.url)
    }

    private func text(_ name: String, _ folder: TemporaryFolder) throws -> String {
        try String(contentsOf: folder.url.appendingPathComponent(name), encoding: .utf8)
    }

    @Test func folder_isExportedAsItWasImported_byteForByte() throws {
        let folder = try TemporaryFolder()
        let done = try importing(Self.everything, into: folder)
        #expect(done.code == 0 && done.output.isEmpty && done.error.isEmpty, "\(done.error)")
        #expect(try Command.run("export", "data", "one.json", in: folder.url).code == 0)
        let one = try text("one.json", folder)
        #expect(one == Self.everything + "\n")
        #expect(try Command.run("import", "again", "-", input: one, in: folder.url).code == 0)
        #expect(try Command.run("export", "again", "-", in: folder.url).output == one)
        // A hub exports the same.
        let hub = try RunningHub(["--port", "0", "--dev", "--data", "again"], folder: folder)
        #expect(try Command.run("get", hub.url).output == one)
    }

    @Test func hub_isExportedAsItWasImported() throws {
        let folder = try TemporaryFolder()
        _ = try folder.file("in.json", Self.everything)
        let hub = try RunningHub(["--port", "0", "--dev", "--data", "data"], folder: folder)
        let done = try Command.run("import", hub.url + "/", "in.json", "--auth", "owner", in: folder.url)
        #expect(done.code == 0, "\(done.error)")
        #expect(try Command.run("get", hub.url).output == Self.everything + "\n")
        #expect(try Command.run("export", hub.url + "/", "one.json", "--auth", "owner", in: folder.url).code == 0)
        #expect(try Command.run("import", hub.url + "/?ns=other", "one.json", "--auth", "owner", in: folder.url).code == 0)
        #expect(try Command.run("export", hub.url, "two.json", "--auth", "owner", "--namespace", "other", in: folder.url).code == 0)
        #expect(try text("one.json", folder) == text("two.json", folder))
        #expect(try Command.run("get", hub.url + "/?ns=other").output == Self.everything + "\n")
        // A single place, whose name a URL has to escape.
        #expect(try Command.run("import", hub.url + "/part/é b", "-", "--auth", "owner", input: "[1,null,3]", in: folder.url).code == 0)
        #expect(try Command.run("get", hub.url + "/part").output == "{\"é b\":{\"0\":1,\"2\":3}}\n")
        #expect(try Command.run("get", hub.url + "/leaf").output == "{\".value\":5,\".priority\":1}\n", "the rest stays")
        #expect(hub.stop() == 0)
        let closed = try RunningHub(["--port", "0", "--data", "data"], folder: folder)
        let refused = try Command.run("export", closed.url, "none.json", in: folder.url)
        #expect(refused.code == 1 && refused.error.contains("administrator"))
        #expect(!FileManager.default.fileExists(atPath: folder.url.appendingPathComponent("none.json").path))
        #expect(try Command.run("import", closed.url, "in.json", in: folder.url).code == 1)
    }

    @Test(arguments: [
        ("null", "null"), ("{}", "null"), ("[]", "null"), (" 5 ", "5"), (#"{".value":1,".priority":2}"#, #"{".value":1,".priority":2}"#),
        (#"{"a":{"b":null},"c":[]}"#, "null"), (#"[true,null,{"a":["x"]}]"#, #"{"0":true,"2":{"a":{"0":"x"}}}"#),
        (#"{"b":1,"a":2,"b":3}"#, #"{"a":2,"b":3}"#), (#"{"a":{".value":null,".priority":1},"b":{".priority":1}}"#, "null"),
    ])
    func otherForms_areTakenAsTheyAreMeant(_ text: String, _ exported: String) throws {
        let folder = try TemporaryFolder()
        #expect(try importing("{\"before\":1}", into: folder).code == 0)
        let done = try importing(text, into: folder)
        #expect(done.code == 0, "\(done.error)")
        #expect(try Command.run("export", "data", "-", in: folder.url).output == exported + "\n")
    }

    @Test(arguments: [
        ("{\"a\":1,\n \"b\":}", "in.json:2:6 (byte 14)", "couldn't parse"), ("{\"a\":1} x", "in.json:1:9 (byte 9)", "couldn't parse"),
        ("{\"a\":{\"b\":{\"c\":{\"d\":[1,\n2,\n{\"x.y\":1}]}}}}", "in.json:3:", "x.y"), ("{\"a$\":1}", "in.json:1:", "a$"),
        ("{\"a\":{\".sv\":\"timestamp\"}}", "in.json:1:6 (byte 6)", "server value"),
        ("{\"a\":1,\".priority\":true}", "in.json:1:", "priority"),
        ("{\"a\":", "in.json:1:6 (byte 6)", "couldn't parse"), ("", "in.json is empty", "null"),
        (String(repeating: "{\"a\":", count: 33) + "1" + String(repeating: "}", count: 33), "in.json:1:", "32 levels"),
    ])
    func brokenFile_isNamedByPlace_andChangesNothing(_ text: String, _ place: String, _ why: String) throws {
        let folder = try TemporaryFolder()
        #expect(try importing("{\"kept\":1}", into: folder).code == 0)
        let failed = try importing(text, into: folder)
        #expect(failed.code == 1)
        #expect(failed.error.contains(place) && failed.error.contains(why), "\(failed.error)")
        #expect(try Command.run("export", "data", "-", in: folder.url).output == "{\"kept\":1}\n")
        let other = try TemporaryFolder()
        _ = try other.file("in.json", text)
        #expect(try Command.run("import", "none", "in.json", in: other.url).code == 1)
        #expect(!FileManager.default.fileExists(atPath: other.url.appendingPathComponent("none").path), "no folder is made for it")
    }

    @Test func folderInUse_andFolderWithoutData_areRefused() throws {
        let folder = try TemporaryFolder()
        let hub = try RunningHub(["--port", "0", "--data", "data"], folder: folder)
        for result in [try importing("1", into: folder), try Command.run("export", "data", "out.json", in: folder.url)] {
            #expect(result.code == 1)
            #expect(result.error.contains("in use by process \(hub.process.processIdentifier)") && result.error.contains("address"))
            #expect(!result.error.contains(":9000"), "it may listen elsewhere")
        }
        #expect(hub.stop() == 0)
        // A hub has served the folder, but nothing was written.
        let unwritten = try Command.run("export", "data", "out.json", in: folder.url)
        #expect(unwritten.code == 1 && unwritten.error.contains("holds no data yet"), "\(unwritten.error)")
        for text in ["(vigla.sqlite, accounts.sqlite, admin-secret.txt)", "vigla import data FILE", "vigla serve --data data"] {
            #expect(unwritten.error.contains(text), "\(unwritten.error)")
        }
        let empty = try Command.run("export", "nothing", "out.json", in: folder.url)
        #expect(empty.code == 1 && empty.error.contains("holds no data: there is no nothing/vigla.sqlite"), "\(empty.error)")
        #expect(!FileManager.default.fileExists(atPath: folder.url.appendingPathComponent("nothing").path))
        #expect(try importing("1", into: folder, "--namespace", "one").code == 0)
        let other = try Command.run("export", "data", "out.json", "--namespace", "two", in: folder.url)
        #expect(other.code == 1 && other.error.contains("no namespace two") && other.error.contains("one"))
        #expect(try Command.run("export", "data", "-", "--namespace", "one", in: folder.url).output == "1\n")
        #expect(try Command.run("import", "data", "none.json", in: folder.url).error.contains("none.json: no such file"))
        #expect(try Command.run("import", "data", "in.json", "--namespace", "a/b", in: folder.url).code == 64)
        #expect(try Command.run("export", "data", "missing/out.json", "--namespace", "one", in: folder.url).code == 1)
    }

    /// The folder's only namespace is used, and its lost content is reported.
    @Test func folderWithOneNamespace_isImportedIntoThat_andWithSeveralNoneIsGuessed() throws {
        let folder = try TemporaryFolder()
        #expect(try importing(#"{"a":1,"b":2}"#, into: folder, "--namespace", "my-app").code == 0)
        let done = try importing(#"{"c":1}"#, into: folder)
        #expect(done.code == 0)
        #expect(done.error == "vigla: replaced what namespace my-app held: 2 children at its root\n")
        #expect(try Command.run("export", "data", "-", "--namespace", "my-app", in: folder.url).output == "{\"c\":1}\n")
        #expect(try Command.run("export", "data", "-", in: folder.url).output == "{\"c\":1}\n")
        let new = try importing("5", into: folder, "--namespace", "other")
        #expect(new.code == 0)
        #expect(new.error == "vigla: namespace other is new in this folder, which also holds: my-app\n")
        for result in [try importing("6", into: folder), try Command.run("export", "data", "-", in: folder.url)] {
            #expect(result.code == 1)
            #expect(result.error.contains("several namespaces") && result.error.contains("my-app, other"))
        }
        #expect(try Command.run("export", "data", "-", "--namespace", "other", in: folder.url).output == "5\n")
    }

    /// An import also replaces the disconnect writes of a killed hub's clients.
    @Test func import_replacesAlsoWhatLostClientsHadLeft() throws {
        let folder = try TemporaryFolder()
        let hub = try RunningHub(["--port", "0", "--dev", "--data", "data"], folder: folder)
        let socket = try RealtimeSocket(url: hub.url)
        #expect(try socket.ask("o", "/left", ",\"d\":1").status == "ok")
        #expect(hub.stop(SIGKILL) == SIGKILL)
        #expect(try importing("{\"new\":1}", into: folder).code == 0)
        let next = try RunningHub(["--port", "0", "--dev", "--data", "data"], folder: folder)
        #expect(try Command.run("get", next.url).output == "{\"new\":1}\n")
    }

    /// Large enough for several pieces in both directions, and for members read at several levels.
    @Test func largeTree_isExportedAsItWasImported() throws {
        let folder = try TemporaryFolder()
        var text = "{"
        for i in 100..<200 {
            text += (i == 100 ? "" : ",") + "\"k\(i)x\":{"
            for j in 100..<200 {
                text += (j == 100 ? "" : ",") + "\"r\(j)y\":{\"a\":\"\(String(repeating: "n\(j)", count: 60))\",\"n\":\(j)}"
            }
            text += "}"
        }
        text += "}"
        #expect(try importing(text, into: folder).code == 0)
        #expect(try Command.run("export", "data", "out.json", in: folder.url).code == 0)
        #expect(try self.text("out.json", folder) == text + "\n")
    }
}
