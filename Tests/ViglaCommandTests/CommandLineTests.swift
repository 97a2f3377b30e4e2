import Foundation
import Testing
import TestSupport

/// Further forms that the command line accepts, and how it displays its values.
@Suite(.timeLimit(.minutes(30))) struct CommandLineTests {
    @Test func mistypedCommand_isSuggested() throws {
        let slips = [
            (["sevre"], "serve"), (["serv"], "serve"), (["rules", "chek"], "rules check"), (["user", "lst"], "user list"),
            (["delete"], "remove"), (["start"], "serve"), (["scret", "add"], "secret"), (["token", "rotate"], "token rotate-key"),
        ]
        for (words, meant) in slips {
            let result = try Command.run(words)
            #expect(result.code == 64 && result.error.contains("Did you mean 'vigla \(meant)'?"), "\(words) \(result.error)")
        }
        let other = try Command.run("xyzzy")
        #expect(other.code == 64 && !other.error.contains("Did you mean") && other.error.contains("There are: serve, get"))
        for words in [["help", "rules"], ["--version"], ["rules", "--help"]] { #expect(try Command.run(words).code == 0) }
    }

    @Test func restAddress_isThePlaceThatItNames() throws {
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"])
        #expect(try Command.run("set", hub.url + "/a/b.json", "1").code == 0)
        #expect(try Command.run("get", hub.url + "/.json").output == "{\"a\":{\"b\":1}}\n")
        #expect(try Command.run("get", hub.url + "/a/b.json?print=pretty").output == "1\n")
        let dropped = try Command.run("set", hub.url + "/a.json?auth=owner", "1")
        #expect(dropped.code == 1 && dropped.error.contains("--auth-file"), "a credential in the address is not left out in silence")
        #expect(try Command.run("watch", hub.url + "/a.json?orderBy=\"x\"").error.contains("Only 'vigla get' takes queries"))
    }

    private static let players = #"{"ana":{"score":3,"city":"Athens"},"bo":{"score":9},"eve":{"score":5,"city":"Ios"},"joe":7}"#

    @Test func get_takesQueries_andShowsJSONOrATable() throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file(
            "rules.json", #"{"rules":{"players":{".read":true,".write":true,".indexOn":["score"]},"shut":{}}}"#)
        let hub = try RunningHub(["--port", "0", "--memory", "--dev", "--rules", rules], folder: folder)
        let url = hub.url + "/players"
        #expect(try Command.run("set", url, Self.players).code == 0)
        func get(_ options: String...) throws -> String { try Command.run(["get", url] + options).output }
        #expect(try get("--order-by", "score", "--last", "1") == "{\"bo\":{\"score\":9}}\n")
        #expect(try get("--order-by", "score", "--start", "4", "--end", "5") == "{\"eve\":{\"city\":\"Ios\",\"score\":5}}\n")
        #expect(try get("--equal", "joe") == "{\"joe\":7}\n", "ordered by key, a text as it stands")
        #expect(try get("--limit", "1", "--shallow") == "{\"ana\":true}\n")
        #expect(try Command.run("get", url + ".json?orderBy=\"score\"&limitToLast=1").output == "{\"bo\":{\"score\":9}}\n")
        #expect(try get("--equal", "joe", "--pretty") == "{\n  \"joe\" : 7\n}\n")
        #expect(
            try get("--format", "table")
                == "key  city    score  value\nana  Athens  3\nbo           9\neve  Ios     5\njoe                 7\n")
        let sorted = try get("--order-by", "score", "--start", "1", "--format", "table")
        #expect(sorted == "key  city    score\nana  Athens  3\neve  Ios     5\nbo           9\n", "in the order that was asked for")
        let refused = try Command.run("get", hub.url + "/shut", "--limit", "1")
        #expect(refused.code == 1 && refused.error.contains("401") && refused.error.contains("no credential was given"), "\(refused.error)")
        #expect(try Command.run("get", hub.url + "/shut", "--limit", "1", "--auth", "owner").output == "null\n")
        #expect(try Command.run("get", url, "--order-by", "city").error.isEmpty == false, "no index")
        #expect(try Command.run("get", url, "--limit", "1", "--last", "1").code == 64)
    }

    @Test func rules_areShownAndExplained() throws {
        let folder = try TemporaryFolder()
        let text = #"{"rules":{"users":{"$uid":{".read":true, /* hers */ ".write":"auth.uid == $uid"}}}}"#
        let rules = try folder.file("rules.json", text)
        let hub = try RunningHub(["--port", "0", "--memory", "--dev", "--rules", rules], folder: folder)
        #expect(try Command.run("rules", "get", hub.url, "--auth", "owner").output == text + "\n")
        #expect(try !Command.run("rules", "get", hub.url, "--strict", "--auth", "owner").output.contains("hers"))
        func explain(_ options: String...) throws -> String {
            try Command.run(["rules", "explain", hub.url + "/users/ada", "--auth", "owner"] + options).output
        }
        #expect(try explain().hasPrefix("allowed: read /users/ada as a signed-out caller"))
        let denied = try explain("--as", "eve", "--write", "\"Eve\"")
        #expect(denied.hasPrefix("denied: write /users/ada as eve: No .write rule"), "\(denied)")
        #expect(denied.contains("/users/$uid.write at /users/ada => false") && denied.contains("auth.uid = \"eve\""), "\(denied)")
        #expect(try explain("--as", "ada", "--update", #"{"name":"Ada"}"#).hasPrefix("allowed: write /users/ada"))
        #expect(try explain("--json").hasPrefix("{\"allowed\":true"))
        #expect(try Command.run("rules", "explain", hub.url).code == 1, "takes an administrator")
        #expect(try Command.run("rules", "explain", hub.url, "--write", "Eve").code == 64)
    }

    @Test func userList_isATable_withAHead() throws {
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"])
        for (uid, email) in [("ana", "ana@example.org"), ("b", "bo@example.org")] {
            let added = try Command.run("user", "add", hub.url, "--uid", uid, "--email", email, "--no-password", "--auth", "owner")
            #expect(added.code == 0, "\(added.error)")
        }
        let table = try Command.run("user", "list", hub.url, "--format", "table", "--auth", "owner").output
        #expect(table.hasPrefix("ID   ADDRESS          NAME  LAST SIGN-IN  STATE\nana  ana@example.org  -     -"), "\(table)")
        let lines = try Command.run("user", "list", hub.url, "--format", "json", "--auth", "owner").output.split(separator: "\n")
        #expect(lines.count == 2 && lines[1].contains("\"localId\":\"b\""))
    }

    /// The vendor's own export format, with the password of its published example.
    @Test func vendorsAccounts_moveIn_withTheirPasswords() throws {
        let folder = try TemporaryFolder()
        let export = try folder.file(
            "accounts.json", #"{"users":[{"localId":"old1","email":"user1@example.com","emailVerified":true,"#
                + #""passwordHash":"lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ==","#
                + #""salt":"42xEC+ixf3L2lw==","displayName":"One","lastSignedInAt":"1486324412000","createdAt":"1486324412000","#
                + #""disabled":false,"providerUserInfo":[]},"#
                + #"{"localId":"old2","phoneNumber":"+15555550100","createdAt":"1486324412000","providerUserInfo":[]}]}"#)
        let key = try folder.file("key.txt", "jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==\n")
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"], folder: folder)
        let command = ["user", "import", hub.url, export, "--auth", "owner"]
        #expect(try Command.run(command).error.contains("--signer-key-file"))
        let done = try Command.run(command + ["--signer-key-file", key])
        #expect(done.code == 0 && done.output == "2 accounts imported\n", "\(done.output) \(done.error)")
        func signIn(_ password: String) throws -> String {
            let body = #"{"email":"user1@example.com","password":"\#(password)","returnSecureToken":true}"#
            let connection = try hub.connection()
            let head = "POST /identitytoolkit.googleapis.com/v1/accounts:signInWithPassword?key=any HTTP/1.1\r\nHost: localhost\r\n"
            let lengths = "Connection: close\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
            try connection.write(contentsOf: Data((head + lengths + body).utf8))
            return String(decoding: try connection.readToEnd() ?? Data(), as: UTF8.self)
        }
        #expect(try signIn("user1passwore").hasPrefix("HTTP/1.1 400"))
        // First with the vendor's hash, then with the hub's own.
        for _ in 0..<2 { #expect(try signIn("user1password").contains("\"localId\":\"old1\"")) }
        let again = try Command.run(command + ["--signer-key-file", key])
        #expect(again.code == 1 && again.error.contains("user1@example.com: ") && again.output.contains("2 refused"), "\(again.error)")
    }

    /// The rest of each table row, by the name of its option.
    private func rows(_ table: String) -> [String: String] {
        Dictionary(uniqueKeysWithValues: table.split(separator: "\n").map { line in
            let words = line.split(separator: " ")
            return (String(words[0]), words.dropFirst().joined(separator: " "))
        })
    }

    @Test func printConfig_namesEachOptionAndWhoSaysSo() throws {
        let folder = try TemporaryFolder()
        let config = try folder.file("hub.json", #"{"namespace":"file","log-level":"debug"}"#)
        let shown = try Command.run(
            "serve", "--print-config", "--port", "9100", "--memory", environment: ["VIGLA_CONFIG": config, "VIGLA_LOG_LEVEL": "error"])
        let rows = rows(shown.output)
        #expect(shown.code == 0 && rows["port"] == "9100 --port" && rows["log-level"] == "error VIGLA_LOG_LEVEL", "\(shown.output)")
        #expect(rows["namespace"] == "file \(config): \"namespace\"" && rows["host"] == "127.0.0.1 default")
        let faulty = try Command.run("serve", "--print-config", "--port", "x", "--memory")
        #expect(faulty.code == 78 && faulty.output.contains("port") && faulty.error.contains("\"x\" is not a port"))
    }

    @Test func printConfig_tellsTheDefaultInForce_ofEveryOption_andTheRuleOfThoseThatAreFound() throws {
        let folder = try TemporaryFolder()
        let plain = rows(try Command.run("serve", "--print-config", in: folder.url).output)
        for (option, row) in plain { #expect(!row.hasPrefix("-") && row.contains(" "), "\(option) \(row)") }
        #expect(plain["presence-deadline"] == "60 default" && plain["rate"] == "none (no limit) default")
        #expect(plain["rate-burst"] == "none (no --rate) default" && plain["data"] == "./data default")
        #expect(plain["public-url"]?.hasPrefix("http://127.0.0.1:9000 (") == true && plain["tls-cert"] == "none (no TLS) default")
        let budget = plain["memory-budget"]?.split(separator: " ").first.flatMap { Int($0) } ?? 0
        #expect((256...1024).contains(budget) && plain["memory-budget"]?.contains("a quarter") == true)
        // Defaults that another option changes.
        let changed = rows(
            try Command.run("serve", "--print-config", "--dev", "--memory", "--rate", "3", "--namespace", "app", in: folder.url).output)
        #expect(changed["rate-burst"] == "15 (those of 5 s) default" && changed["data"] == "none (in memory) default")
        #expect(changed["project"] == "app (the namespace) default" && changed["rules"] == "none (dev: everything open) default")
        #expect(changed["allow-origin"] == "this machine's (dev) default")
        // The hub uses the values of the table.
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"])
        #expect(becomes { hub.error.contains("memory for clients bytes=\(budget << 20)") }, "\(hub.error)")
        let loops = try hub.page("/.metrics").components(separatedBy: "vigla_loop_inbox{loop=").count - 1
        #expect(plain["loops"] == "\(loops) (one per core) default")
    }

    @Test func doctor_saysWhatIsWrong_andWhatToType() throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", #"{"rules":{"a":{".read":"auth != null"}}}"#)
        let hub = try RunningHub(["--port", "0", "--data", "data", "--rules", rules], folder: folder)
        let port = hub.url.split(separator: ":").last.map(String.init) ?? ""
        let well = try Command.run("doctor", "--port", port, "--data", "data", "--rules", rules, in: folder.url)
        #expect(well.code == 0 && well.output.contains("a hub answers at 127.0.0.1:\(port)"), "\(well.output) \(well.error)")
        for about in ["ok     rules", "disk", "clock", "limits", "doctor: "] { #expect(well.output.contains(about), "\(well.output)") }
        let closed = try Command.run("doctor", "--port", "0", "--memory", "--host", "0.0.0.0")
        #expect(closed.code == 0 && closed.output.contains("without TLS") && closed.output.contains("→ --rules FILE"), "\(closed.output)")
        let wrong = try Command.run("doctor", "--port", "x", "--rules", "missing.json", in: folder.url)
        #expect(wrong.code == 1 && wrong.output.contains("WRONG  options") && wrong.output.contains("missing.json"), "\(wrong.output)")
        chmod(folder.url.appendingPathComponent("data").path, 0o755)
        let open = try Command.run("doctor", "--port", "0", "--data", "data", "--rules", rules, in: folder.url)
        #expect(open.output.contains("→ chmod 700 data"))
        #expect(hub.stop() == 0)
    }

    /// The package's hub has its options in a file that no shell has read.
    @Test func doctor_looksAtTheService_whereNothingElseIsSaid() throws {
        let folder = try TemporaryFolder()
        let (data, rules) = (folder.url.appendingPathComponent("kept").path, try folder.file("rules.json", #"{"rules":{}}"#))
        let file = try folder.file(
            "vigla.env",
            """
            # Settings

            VIGLA_DATA=\(data)
             VIGLA_RULES="\(rules)"\u{20}
            #VIGLA_HOST=0.0.0.0
            VIGLA_PORT=0
            VIGLA_TLS_CRT=c
            VIGLA_X=1
            TZ=UTC
            """)
        func doctor(_ options: String..., settings: String? = nil, environment: [String: String] = [:]) throws -> Command.Result {
            try Command.run(["doctor", "--service-settings", settings ?? file] + options, environment: environment, in: folder.url)
        }
        let service = try doctor(environment: ["VIGLA_AUTH_FILE": "x"])
        for text in [
            "ok     options  those of the service, in \(file)\n", "Did you mean VIGLA_TLS_CERT?", "there is no option for VIGLA_X",
            "ok     port     127.0.0.1, a port", "ok     rules    \(rules): no rules, so everything is denied\n", "\(data) will be made",
        ] {
            #expect(service.output.contains(text), "\(text): \(service.output) \(service.error)")
        }
        #expect(service.code == 1 && service.output.contains("1 wrong"))
        for other in [
            try doctor("--data", "data"), try doctor(environment: ["VIGLA_DATA": "./data"]), try doctor(settings: file + ".none"),
        ] {
            #expect(other.output.contains("data will be made") && !other.output.contains("service"), "\(other.output)")
        }
        let unreadable = try doctor(settings: folder.url.path)
        #expect(unreadable.code == 1 && unreadable.output.contains("WRONG  options  \(folder.url.path), the service's settings: "))
        #expect(unreadable.output.contains("→ sudo vigla doctor\n") && !unreadable.output.contains("data  "), "\(unreadable.output)")
    }

    @Test func completions_areMadeForEveryShell() throws {
        for shell in ["bash", "zsh", "fish"] {
            let script = try Command.run("--generate-completion-script", shell)
            #expect(script.code == 0 && script.output.contains("doctor") && script.output.contains("auth-file"))
        }
    }
}
