import Foundation
import Testing
import TestSupport

/// Several databases on one hub, from the outside: `--namespace` repeated, and the section `databases` of the configuration file.
@Suite(.timeLimit(.minutes(30))) struct DatabasesTests {
    @Test func repeatedNamespace_servesEach_theFirstByDefault() throws {
        let hub = try RunningHub(["--port", "0", "--data", "data", "--dev", "--namespace", "one", "--namespace", "two"])
        #expect(hub.readyLine.contains("(namespaces one, two, data data, rules: one none (dev: everything open); two none"))
        #expect(try Command.run("set", hub.url + "/a", "1").code == 0)
        #expect(try Command.run("set", hub.url + "/a?ns=two", "2").code == 0)
        #expect(try Command.run("get", hub.url + "/a?ns=one").output == "1\n")
        #expect(try Command.run("get", hub.url + "/a?ns=two").output == "2\n")
    }

    @Test func section_givesEachItsRules_andUnknownOnesStayRefused() throws {
        let folder = try TemporaryFolder()
        let config = try folder.file("hub.json", """
            {"port":0,"data":"data","databases":{
              "open":{"rules":"\(try folder.file("open.json", #"{"rules":{".read":true,".write":true}}"#))"},
              "still":{"rules":"\(try folder.file("still.json", #"{"rules":{".read":true}}"#))","rate":1,"rate-burst":2},
              "bare":{}}}
            """)
        let hub = try RunningHub(["--config", config], folder: folder)
        #expect(hub.readyLine.contains("(namespaces open, still, bare, data data, rules: open "))
        #expect(hub.readyLine.contains("; bare none (everything denied))"))
        #expect(hub.error.contains("no rules in bare, so every read and write is denied"))
        #expect(try Command.run("set", hub.url + "/a", "1").code == 0)
        #expect(try Command.run("get", hub.url + "/a?ns=still").output == "null\n")
        #expect(try Command.run("set", hub.url + "/a?ns=still", "1").error.contains("permission_denied"))
        #expect(try Command.run("get", hub.url + "/a?ns=bare").error.contains("permission_denied"))
        // The names of a hub's databases are not for everyone.
        let unknown = try Command.run("get", hub.url + "/a?ns=other")
        #expect(unknown.code == 1 && unknown.error.contains("other") && !unknown.error.contains("still"))
    }

    /// SIGHUP reads the files of all databases, and touches only those whose file has changed.
    @Test func changedRulesFile_takesEffectInItsDatabasesOnly() throws {
        let folder = try TemporaryFolder()
        let (open, closed) = (#"{"rules":{".read":true}}"#, #"{"rules":{".read":false}}"#)
        let (a, b) = (try folder.file("a.json", closed), try folder.file("b.json", closed))
        let config = try folder.file("hub.json", #"{"port":0,"memory":true,"databases":{"a":{"rules":"\#(a)"},"b":{"rules":"\#(b)"}}}"#)
        let hub = try RunningHub(["--config", config], folder: folder)
        for name in ["a", "b"] { #expect(try Command.run("get", hub.url + "/x?ns=\(name)").error.contains("permission_denied")) }
        _ = try folder.file("b.json", open)
        kill(hub.process.processIdentifier, SIGHUP)
        #expect(try becomes { try Command.run("get", hub.url + "/x?ns=b").code == 0 })
        #expect(try Command.run("get", hub.url + "/x?ns=a").error.contains("permission_denied"))
    }

    @Test func allFaults_areReportedAtOnce() throws {
        let folder = try TemporaryFolder()
        let faulty = try folder.file("faulty.json", #"{"rules":{".reed":true}}"#)
        let config = try folder.file("hub.json", """
            {"databases":{"a b":{},"c":{"rules":"\(faulty)","rate":0,"color":1},"d":{"rules":"none.json"},"e":3}}
            """)
        let result = try Command.run(["serve", "--check", "--config", config, "--namespace", "x", "--namespace", "x"], in: folder.url)
        #expect(result.code == 78)
        for fault in [
            #""databases": "a b" is not a name"#, #""c": "rules": \#(faulty):"#, #""c": "rate": expected a whole number (1…1000000)"#,
            #""c": there is no "color" here"#, #""d": "rules": none.json"#, #""e": expected an object"#, "x is named more than once",
        ] {
            #expect(result.error.contains(fault), "\(fault) in \(result.error)")
        }
        let shape = try folder.file("shape.json", #"{"databases":["a"]}"#)
        #expect(try Command.run("serve", "--check", "--config", shape).error.contains(#""databases": expected an object"#))
        let print = try Command.run(
            ["serve", "--print-config", "--config", try folder.file("good.json", #"{"databases":{"a":{},"b":{}}}"#)], in: folder.url)
        #expect(print.output.contains("a, b"))
    }

    /// Each command that takes an address selects the database by `ns`; a backup has them all.
    @Test func commands_concernTheDatabaseThatIsNamed() throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", #"{"rules":{".read":true}}"#)
        let options = ["--port", "0", "--namespace", "one", "--namespace", "two", "--rules", rules]
        let hub = try RunningHub(options + ["--data", "data"], folder: folder)
        func run(_ arguments: String...) throws -> Command.Result {
            try Command.run(arguments, environment: ["VIGLA_AUTH_FILE": "data/admin-secret.txt"], in: folder.url)
        }
        _ = try folder.file("two.json", #"{"a":{"b":2}}"#)
        #expect(try run("set", hub.url + "/only", "1").code == 0)
        #expect(try run("import", hub.url + "?ns=two", "two.json").code == 0)
        #expect(try run("export", hub.url + "?ns=two", "-").output.contains(#""b":2"#))
        #expect(try run("export", hub.url, "-").output.contains("only"))
        let own = try folder.file("own.json", #"{"rules":{".read":"auth != null"}}"#)
        #expect(try run("rules", "deploy", hub.url + "?ns=two", own).code == 0)
        #expect(try run("rules", "get", hub.url + "?ns=two").output.contains("auth != null"))
        #expect(try run("rules", "explain", hub.url + "/a?ns=two").output.hasPrefix("denied"))
        #expect(try run("rules", "explain", hub.url + "/a").output.hasPrefix("allowed"))
        #expect(try run("user", "add", hub.url + "?ns=two", "--uid", "ana", "--no-password").code == 0)
        #expect(try run("user", "list", hub.url).output.contains("ana") == false)
        let token = try run("token", "mint", hub.url + "?ns=two", "--user", "ana").output.trimmingCharacters(in: .whitespacesAndNewlines)
        #expect(try Command.run("get", hub.url + "/a/b?ns=two", "--auth", token).output == "2\n")
        #expect(try Command.run("get", hub.url + "/a/b", "--auth", token).code == 1, "a token of two is nothing in one")
        let secret = try run("secret", "add", hub.url + "?ns=two", "--name", "of two").output.trimmingCharacters(in: .whitespacesAndNewlines)
        #expect(try Command.run("set", hub.url + "/a/b?ns=two", "3", "--auth", secret).code == 0)
        #expect(try Command.run("set", hub.url + "/a/b", "3", "--auth", secret).code == 1)
        #expect(try run("secret", "list", hub.url + "?ns=two").output.contains("of two"))
        #expect(try run("secret", "list", hub.url).output.contains("of two") == false)
        #expect(try run("health", hub.url).code == 0)
        let metrics = try hub.page("/.metrics")
        for line in [#"vigla_commits_total{namespace="two"} "#, #"vigla_degraded{namespace="one"} 0"#, #"{file="accounts-two.sqlite"}"#] {
            #expect(metrics.contains(line), "\(line)")
        }
        #expect(try run("backup", "--data", "data", "--to", "copy").code == 0)
        #expect(hub.stop() == 0)
        let again = try RunningHub(options + ["--data", "copy"], folder: folder)
        #expect(again.readyLine.contains("two deployed after"), "\(again.readyLine)")
        #expect(try Command.run("get", again.url + "/a/b?ns=two", "--auth", token).output == "3\n")
        #expect(again.stop() == 0)
        #expect(try run("export", "data", "-").error.contains("one, two"))
        #expect(try run("export", "data", "-", "--namespace", "two").output.contains(#""b":3"#))
    }

    @Test func databasesAreCreatedListedAndRemoved() throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", #"{"rules":{".read":true,".write":true}}"#)
        let hub = try RunningHub(["--port", "0", "--data", "data", "--rules", rules], folder: folder)
        func run(_ arguments: String...) throws -> Command.Result {
            try Command.run(arguments, environment: ["VIGLA_AUTH_FILE": "data/admin-secret.txt"], in: folder.url)
        }
        #expect(try Command.run("database", "list", hub.url).error.contains("no credential was given"))
        let faulty = try folder.file("faulty.json", #"{"rules":{".reed":true}}"#)
        let refused = try run("database", "create", hub.url, "next", "--rules", faulty)
        #expect(refused.code == 1 && refused.error.contains("\(faulty):1:"), "\(refused.error)")
        #expect(try run("database", "create", hub.url, "next", "--rules", rules).output.hasPrefix("next: created at "))
        #expect(try run("database", "create", hub.url, "next").error.contains("exists already"))
        #expect(try run("database", "create", hub.url, "a b").code == 64)
        #expect(try Command.run("set", hub.url + "/a?ns=next", "1").code == 0)
        let rows = try run("database", "list", hub.url).output.split(separator: "\n")
        #expect(rows.count == 2 && rows[0].contains("default") && rows[1].contains("own accounts") && rows[1].contains("administrator"))
        let unanswered = try run("database", "remove", hub.url, "next")
        #expect(unanswered.code == 1 && unanswered.error.contains("--yes"))
        #expect(try run("database", "remove", hub.url, "default", "--yes").error.contains("configuration"))
        #expect(try run("database", "remove", hub.url, "next", "--yes").code == 0)
        #expect(try Command.run("get", hub.url + "/a?ns=next").code == 1)
        #expect(try run("database", "remove", hub.url, "next", "--yes").error.contains("no database next"))
    }

    @Test func accountsOfADatabase_areItsOwn_ofAFile_orShared() throws {
        let folder = try TemporaryFolder()
        let closed = try folder.file("closed.json", #"{"sign-up":"admin"}"#)
        let config = try folder.file("hub.json", """
            {"port":0,"data":"data","databases":{"main":{},"own":{},"file":{"accounts":"\(closed)"},"shared":{"accounts":"shared"}}}
            """)
        let hub = try RunningHub(["--config", config], folder: folder)
        func run(_ arguments: String...) throws -> Command.Result {
            try Command.run(arguments, environment: ["VIGLA_AUTH_FILE": "data/admin-secret.txt"], in: folder.url)
        }
        #expect(try run("user", "add", hub.url, "--uid", "ana", "--no-password").code == 0)
        for (database, isKnown) in [("main", true), ("shared", true), ("own", false), ("file", false)] {
            #expect(try run("user", "list", "\(hub.url)?ns=\(database)").output.contains("ana") == isKnown, "\(database)")
        }
        func signUp(_ key: String) throws -> String {
            let connection = try hub.connection()
            let body = #"{"returnSecureToken":true}"#
            try connection.write(contentsOf: Data((
                "POST /identitytoolkit.googleapis.com/v1/accounts:signUp?key=\(key) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                    + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)").utf8))
            return String(decoding: try connection.readToEnd() ?? Data(), as: UTF8.self)
        }
        #expect(try signUp("own").contains("idToken") && signUp("any").contains("idToken"))
        #expect(try signUp("file").contains("ADMIN_ONLY_OPERATION"))
        #expect(hub.stop() == 0)

        let faulty = try folder.file("faulty.json", """
            {"databases":{"main":{"accounts":"shared"},"b":{"accounts":"\(try folder.file("x.json", #"{"sign-up":"never"}"#))"}}}
            """)
        let faults = try Command.run("serve", "--check", "--config", faulty).error
        #expect(faults.contains("the default database has the accounts of the hub") && faults.contains(#""sign-up": expected"#), "\(faults)")
        let without = try folder.file("without.json", #"{"accounts":"off","databases":{"main":{},"b":{"accounts":"own"}}}"#)
        #expect(try Command.run("serve", "--check", "--config", without).error.contains("there are no accounts (--accounts off)"))
        // Members that concern the whole hub would have no effect.
        let whole = try folder.file("whole.json", """
            {"mail":{"plaintext":true,"certificates":"x"},"trusted-proxies":["10.0.0.1"],"throttle":{"requests-at-once-per-network":5}}
            """)
        let hubs = try folder.file("hubs.json", #"{"databases":{"main":{},"b":{"accounts":"\#(whole)"}}}"#)
        let members = try Command.run("serve", "--check", "--config", hubs).error
        for member in [#""mail": "plaintext""#, #""mail": "certificates""#, #""trusted-proxies""#, #""requests-at-once-per-network""#] {
            #expect(members.contains("\(member) concerns the whole hub"), "\(members)")
        }
        let project = try Command.run("serve", "--check", "--config", config, "--project", "own").error
        #expect(project.contains("--project: own is also the name of a database"), "\(project)")
        #expect(try Command.run("serve", "--check", "--config", config, "--project", "shared", in: folder.url).code == 0)
        // Another default database would get the users of main.
        let other = try Command.run("serve", "--data", "data", "--port", "0", "--namespace", "own", "--namespace", "main", in: folder.url)
        #expect(other.code == 1 && other.error.contains("--namespace main --namespace"), "\(other.error)")
        let alone = try Command.run("serve", "--data", "data", "--port", "0", "--namespace", "own", in: folder.url)
        #expect(alone.code == 1 && alone.error.contains("those of the database main"), "\(alone.error)")
    }
}
