import Foundation
import Testing
import TestSupport

/// `vigla serve` from the outside: its ready line, its options in all three forms, and its shutdown.
@Suite(.timeLimit(.minutes(30))) struct ServeTests {
    @Test func readyLine_saysWhereWhatAndHow() throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", #"{"rules":{".read":true}}"#)
        let hub = try RunningHub(["--port", "0", "--data", "kept", "--rules", rules, "--namespace", "city"], folder: folder)
        #expect(hub.readyLine == "vigla ready on \(hub.url) (namespace city, data kept, rules \(rules))")
        #expect(hub.url.hasPrefix("http://127.0.0.1:"))
        #expect(FileManager.default.fileExists(atPath: folder.url.appendingPathComponent("kept").path))
    }

    @Test func withoutRules_everythingIsDenied_andSaysSo() throws {
        let hub = try RunningHub(["--port", "0", "--memory"])
        #expect(hub.readyLine.hasSuffix("(namespace default, data memory, rules none (everything denied))"))
        #expect(hub.error.contains("--rules"))
        let read = try Command.run("get", hub.url + "/a")
        #expect(read.code == 1)
        #expect(read.error.contains("permission_denied"))
    }

    @Test func dev_isOpen_andWarnsLoudly() throws {
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"])
        #expect(hub.readyLine.hasSuffix("rules none (dev: everything open))"))
        #expect(hub.error.contains("WARNING"))
        #expect(try Command.run("set", hub.url + "/a", "1").code == 0)
    }

    @Test func durability_byChoice_isSaidAtTheStart() throws {
        let memory = try RunningHub(["--port", "0", "--durability", "memory"])
        #expect(memory.readyLine.contains("data memory"))
        let normal = try RunningHub(["--port", "0", "--durability", "normal"])
        #expect(normal.readyLine.contains("data ./data") && normal.error.contains("power cut"))
        let full = try RunningHub(["--port", "0", "--durability", "full"])
        #expect(!full.error.contains("power cut"))
        let both = try Command.run("serve", "--durability", "memory", "--data", "x")
        #expect(both.code == 78 && both.error.contains("contradict"))
    }

    /// A mistyped name would look like the loss of all data.
    @Test func newNamespaceInAUsedFolder_isWarnedOf() throws {
        let folder = try TemporaryFolder()
        func error(_ namespace: String) throws -> String {
            let hub = try RunningHub(["--port", "0", "--data", "data", "--dev", "--namespace", namespace], folder: folder)
            #expect(try Command.run("get", hub.url + "/a").code == 0)
            defer { _ = hub.stop() }
            return hub.error
        }
        _ = try folder.file("in.json", "1")
        #expect(try Command.run("import", "data", "in.json", "--namespace", "my-app", in: folder.url).code == 0)
        #expect(try !error("my-app").contains("also holds"))
        #expect(try error("my-ap").contains("vigla: namespace my-ap is new and empty; the folder also holds: my-app"))
    }

    /// An unrelated variable does not prevent the start; neither does a mistyped one without a value.
    @Test func variableThatNoOptionReads_isWarnedOf() throws {
        let others = ["VIGLA_BIN": "vigla", "VIGLA_RULES_FILE": "y", "VIGLA_NAME": "z", "VIGLA_TLS_CRT": ""]
        let known = ["VIGLA_AUTH_FILE": "x", "VIGLA_LOOPS": "1", "VIGLA_TLS_CA": "y"]
        let hub = try RunningHub(["--port", "0", "--memory"], environment: others.merging(known) { $1 })
        #expect(hub.error.contains("vigla: there is no option for VIGLA_BIN, VIGLA_NAME, VIGLA_RULES_FILE in the environment"))
        let doctor = try Command.run("doctor", "--port", "0", "--memory", environment: others)
        #expect(doctor.code == 0 && doctor.output.contains("warn   options  there is no option for VIGLA_BIN in the environment"))
        #expect(!doctor.output.contains("VIGLA_TLS_CRT"), "\(doctor.output)")
    }

    @Test func variableThatIsASlip_isAFault() throws {
        let slips = ["VIGLA_TLS_CRT": "cert.pem", "VIGLA_PROT": "9001", "VIGLA_DATAS": "z", "VIGLA_BIN": "vigla"]
        let result = try Command.run("serve", "--port", "0", "--memory", environment: slips)
        #expect(result.code == 78 && result.error.contains("the configuration has 3 faults"), "\(result.error)")
        let doctor = try Command.run("doctor", "--port", "0", "--memory", environment: slips)
        #expect(doctor.code == 1 && doctor.output.contains("doctor: 3 wrong, "), "\(doctor.output)")
        for (slip, meant) in [("VIGLA_TLS_CRT", "VIGLA_TLS_CERT"), ("VIGLA_PROT", "VIGLA_PORT"), ("VIGLA_DATAS", "VIGLA_DATA")] {
            let text = "\(slip): there is no such option. Did you mean \(meant)?"
            #expect(result.error.contains(text) && doctor.output.contains("WRONG  options  \(text)"), "\(result.error) \(doctor.output)")
        }
    }

    @Test(arguments: [
        ("{\"port\":1,\n \"loops\":}", "hub.json:2:10 (byte 21)"), ("[1]", "hub.json:1:1 (byte 1)"), ("{\"port\":1", "hub.json:1:"),
    ])
    func brokenFileOfOptions_isNamedByPlace(_ text: String, _ place: String) throws {
        let folder = try TemporaryFolder()
        _ = try folder.file("hub.json", text)
        let result = try Command.run("serve", "--memory", "--config", "hub.json", in: folder.url)
        #expect(result.code == 78)
        #expect(result.error.contains(place) && result.error.contains("one object of JSON"), "\(result.error)")
    }

    /// Under any umask; the tree is for the hub's user only.
    @Test func dataFiles_areTheHubsUsersOnly() throws {
        let folder = try TemporaryFolder()
        let hub = try RunningHub(["--port", "0", "--data", "data", "--dev"], folder: folder, shell: "umask 022; mkdir data;")
        #expect(try Command.run("set", hub.url + "/a", "1").code == 0)
        let data = folder.url.appendingPathComponent("data").path
        func modes() throws -> [String: Int] {
            let names = try FileManager.default.contentsOfDirectory(atPath: data).filter { $0.hasPrefix("vigla.sqlite") }
            return try Dictionary(uniqueKeysWithValues: names.map {
                ($0, try FileManager.default.attributesOfItem(atPath: "\(data)/\($0)")[.posixPermissions] as? Int ?? 0)
            })
        }
        let onlyTheOwner = ["vigla.sqlite": 0o600, "vigla.sqlite-wal": 0o600, "vigla.sqlite-shm": 0o600]
        #expect(try modes() == onlyTheOwner)
        #expect(hub.stop(SIGKILL) == SIGKILL)
        // Data of earlier versions.
        for name in onlyTheOwner.keys { #expect(chmod("\(data)/\(name)", 0o644) == 0) }
        let next = try RunningHub(["--port", "0", "--data", "data", "--dev"], folder: folder)
        #expect(try Command.run("get", next.url + "/a").output == "1\n")
        #expect(try modes() == onlyTheOwner)
    }

    /// The message of a log line in JSON.
    private func message(of line: String) throws -> String {
        let members = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
        return try #require(members?["message"] as? String)
    }

    @Test func everyOption_hasAnEnvironmentForm() throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", #"{"rules":{}}"#)
        _ = try folder.file("page/index.html", "<p>Here</p>")
        let hub = try RunningHub(
            [],
            environment: [
                "VIGLA_HOST": "localhost", "VIGLA_PORT": "0", "VIGLA_MEMORY": "yes", "VIGLA_RULES": rules, "VIGLA_NAMESPACE": "city",
                "VIGLA_WEB": "page",
                "VIGLA_DURABILITY": "normal", "VIGLA_LOOPS": "1", "VIGLA_LOG_LEVEL": "debug", "VIGLA_LOG_FORMAT": "json", "VIGLA_DEV": "1",
                "VIGLA_LOG_REFUSALS": "5", "VIGLA_LOG_REQUESTS": "true", "VIGLA_ACCEPT_LOSS": "true",
                "VIGLA_BYTES_BY_USER": "yes",
                "VIGLA_MEMORY_BUDGET": "300", "VIGLA_PRESENCE_DEADLINE": "3600", "VIGLA_RATE": "20",
                "VIGLA_RATE_BURST": "100", "VIGLA_CONFIG": "",
            ], folder: folder)
        let ready = try message(of: hub.readyLine)
        #expect(ready.hasPrefix("vigla ready on http://localhost:"))
        #expect(ready.hasSuffix("(namespace city, data memory, rules \(rules))"))
        #expect(hub.error.contains("WARNING"))
    }

    @Test func everyOption_isAKeyOfTheFile_weakerThanEnvironmentAndCommandLine() throws {
        let folder = try TemporaryFolder()
        let config = try folder.file(
            "hub.json",
            #"{"host":"127.0.0.1","port":1,"memory":true,"namespace":"file","durability":"full","loops":1,"log-level":"error","#
                + #""log-format":"json","dev":true,"metrics":"off","allow-origin":"https://app.example","log-refusals":5,"#
                + #""accept-loss":false,"bytes-by-user":true,"memory-budget":300,"presence-deadline":5,"rate":20}"#)
        let fromFile = try RunningHub(["--config", config, "--port", "0"], folder: folder)
        #expect(try message(of: fromFile.readyLine).hasSuffix("(namespace file, data memory, rules none (dev: everything open))"))
        let fromEnvironment = try RunningHub(
            ["--port", "0"], environment: ["VIGLA_CONFIG": config, "VIGLA_NAMESPACE": "environment"], folder: folder)
        #expect(fromEnvironment.readyLine.contains("namespace environment"))
        let fromArguments = try RunningHub(
            ["--namespace", "arguments", "--data", "kept"],
            environment: ["VIGLA_CONFIG": config, "VIGLA_NAMESPACE": "environment", "VIGLA_PORT": "0"],
            folder: folder)
        // A folder on the command line overrides memory in the file.
        #expect(fromArguments.readyLine.contains("namespace arguments, data kept"))
    }

    @Test func allFaults_areReportedTogether_beforeThePortOpens() throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", "{\"rules\":{\n  \".read\": \"auth.nobody(\",\n  \".write\": \"1 +\"\n}}")
        let config = try folder.file("hub.json", #"{"colour":"blue","loops":"many"}"#)
        let result = try Command.run(
            "serve", "--port", "abc", "--data", "x", "--memory", "--rules", rules, "--web", "nowhere", "--config", config, "--log-level",
            "loud", "--metrics", "some", "--allow-origin", "app.example/x", "--log-refusals", "all", "--memory-budget", "15",
            "--presence-deadline", "4", "--rate-burst", "0",
            environment: ["VIGLA_DURABILITY": "never", "VIGLA_NAMESPACE": "a.b"], in: folder.url)
        #expect(result.code == 78)
        #expect(result.output == "")
        for part in [
            "--port: \"abc\"", "--memory and --data contradict", "--rules: \(rules):2:", "--rules: \(rules):3:", "--web: ",
            "there is no option \"colour\"",
            "hub.json: \"loops\"", "--log-level: \"loud\"", "--metrics: \"some\"", "--allow-origin: \"app.example/x\"",
            "--log-refusals: \"all\"", "--memory-budget: \"15\"", "--presence-deadline: \"4\"", "--rate-burst: \"0\"",
            "--rate-burst: there is no --rate", "VIGLA_DURABILITY: \"never\"", "VIGLA_NAMESPACE: \"a.b\"",
        ] { #expect(result.error.contains(part), "\(part) is missing in \(result.error)") }
    }

    @Test(arguments: ["0.0.0.0", "::", "192.0.2.1", "hub.example"]) func dev_refusesOtherMachines(_ host: String) throws {
        let folder = try TemporaryFolder()
        let result = try Command.run("serve", "--dev", "--memory", "--port", "0", "--host", host, in: folder.url)
        #expect(result.code == 78)
        #expect(result.error.contains("VIGLA_DEV_ANY_HOST"))
    }

    @Test func dev_onAllAddresses_isPossibleWhenAskedForTwice() throws {
        let hub = try RunningHub(["--dev", "--memory", "--port", "0", "--host", "0.0.0.0"], environment: ["VIGLA_DEV_ANY_HOST": "1"])
        #expect(hub.readyLine.hasPrefix("vigla ready on http://0.0.0.0:"))
    }

    /// On a terminal the shutdown is shown, too.
    @Test func controlC_saysThatTheHubStops_andThatItHasStopped() throws {
        let program = Command.folder.appendingPathComponent("vigla").path
        let (keys, screen) = (Pipe(), Pipe())
        let hub = try Command.start(
            ["--quiet", "--return", "--flush", "--command", "exec '\(program)' serve --port 0 --memory", "/dev/null"], [:], nil,
            "/usr/bin/script", input: .handle(keys.fileHandleForReading), output: .handle(screen.fileHandleForWriting),
            error: .handle(screen.fileHandleForWriting))
        try screen.fileHandleForWriting.close()
        var text = ""
        while !text.contains("ready on"), let more = try screen.fileHandleForReading.read(upToCount: 1) {
            text += String(decoding: more, as: UTF8.self)
        }
        try keys.fileHandleForWriting.write(contentsOf: [3])
        text += String(decoding: try screen.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        hub.waitUntilExit()
        #expect(hub.terminationStatus == 0 && text.hasSuffix("\r\nStopping… (Ctrl-C again ends at once)\r\nStopped.\r\n"), "\(text)")
    }

    /// A script that waits for `/.health` finds the secret, and it is valid.
    @Test func firstSecret_isThere_beforeTheHubAnswers() throws {
        for _ in 0..<5 {
            let folder = try TemporaryFolder()
            let taken = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            var address = sockaddr_in()
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            address.sin_family = sa_family_t(AF_INET)
            withUnsafeMutablePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(taken, $0, length)
                    getsockname(taken, $0, &length)
                }
            }
            close(taken)
            let port = UInt16(bigEndian: address.sin_port)
            let process = try Command.start(
                ["serve", "--port", "\(port)", "--data", "data"], [:], folder.url, output: .null, error: .null)
            defer {
                kill(process.processIdentifier, SIGKILL)
                process.waitUntilExit()
            }
            func page(_ target: String, _ fields: String = "") -> String {
                let (descriptor, isConnected) = Loopback.connect(port: port, patienceSeconds: 60)
                let connection = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
                let request = "GET \(target) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\(fields)\r\n"
                guard isConnected, Loopback.send(Array(request.utf8), to: descriptor) else { return "" }
                return String(decoding: (try? connection.readToEnd()) ?? Data(), as: UTF8.self)
            }
            var health = ""
            while !health.hasPrefix("HTTP/1.1 200"), process.isRunning { health = page("/.health") }
            let secret = (try? String(contentsOfFile: folder.at("data/admin-secret.txt"), encoding: .utf8)) ?? ""
            let rules = page("/.settings/rules.json", "Authorization: Bearer \(secret.filter { $0 != "\n" })\r\n")
            #expect(rules.hasPrefix("HTTP/1.1 200"), "\(secret.count) \(rules)")
        }
    }

    @Test func takenPort_isAnErrorInWords() throws {
        let hub = try RunningHub(["--port", "0", "--memory"])
        let port = hub.url.split(separator: ":").last.map(String.init) ?? ""
        let result = try Command.run("serve", "--port", port, "--memory", in: hub.folder.url)
        #expect(result.code == 1)
        #expect(result.error.contains(port))
    }

    @Test func unreadableFiles_areFaults() throws {
        let folder = try TemporaryFolder()
        let result = try Command.run("serve", "--rules", "none.json", "--config", "none.conf", "--data", "file/below", in: folder.url)
        #expect(result.code == 78)
        #expect(result.error.contains("none.json: no such file"))
        #expect(result.error.contains("cannot read none.conf"))
        _ = try folder.file("file", "")
        #expect(try Command.run("serve", "--data", "file/below", in: folder.url).error.contains("file is not a folder"))
    }

    @Test(arguments: [SIGTERM, SIGINT]) func signal_stopsInOrder(_ number: Int32) throws {
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"])
        #expect(hub.stop(number) == 0)
    }

    @Test func data_isThereAfterARestart() throws {
        let folder = try TemporaryFolder()
        let first = try RunningHub(["--port", "0", "--dev"], folder: folder)
        #expect(try Command.run("set", first.url + "/a", #"{"kept":true}"#).code == 0)
        #expect(first.stop() == 0)
        let second = try RunningHub(["--port", "0", "--dev"], folder: folder)
        #expect(second.readyLine.contains("data ./data"))
        #expect(try Command.run("get", second.url + "/a").output == "{\"kept\":true}\n")
    }

    @Test func page_isTakenFromTheFolderBeside() throws {
        let folder = try TemporaryFolder()
        _ = try folder.file("web/index.html", "<p>The page</p>")
        let hub = try RunningHub(["--port", "0", "--memory"], folder: folder)
        #expect(try hub.page("/.console/").contains("The page"))
    }
}
