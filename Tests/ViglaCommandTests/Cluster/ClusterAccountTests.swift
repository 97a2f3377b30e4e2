import Foundation
import Testing
import TestSupport

#if VIGLA_CLUSTER
import TestCluster

/// Real hubs of a cluster, which share accounts, rules and secrets.
@Suite(.timeLimit(.minutes(30)), .enabled(if: TestCluster.program != nil, "\(TestCluster.absent)")) struct ClusterAccountTests {
    private let options: [String]
    private let cluster: TestCluster

    init() throws {
        cluster = try TestCluster.shared.get()
        options = Self.options(cluster)
    }

    private static func options(_ cluster: TestCluster) -> [String] {
        let name = "accounts\(UInt32.random(in: 1 ... .max))"
        return ["--port", "0", "--cluster", cluster.urls.joined(separator: ","), "--cluster-name", name]
    }

    /// A writer and two followers.
    private func hubs(_ options: [String], rules: [String?] = [nil, nil, nil]) throws -> [RunningHub] {
        let folders = try (0..<3).map { _ in try TemporaryFolder() }
        for (folder, rules) in zip(folders, rules) { if let rules { try folder.file("rules.json", rules) } }
        func more(_ i: Int) -> [String] { rules[i] == nil ? [] : ["--rules", folders[i].at("rules.json")] }
        let first = try RunningHub(options + more(0), folder: folders[0])
        return try [first] + (1...2).map { try RunningHub(options + more($0), folder: folders[$0]) }
    }

    private struct Reply {
        let status: Int
        let json: [String: Any]
        let text: String

        subscript(name: String) -> String { json[name] as? String ?? "" }
        var error: String { (json["error"] as? [String: Any])?["message"] as? String ?? "" }
    }

    private func ask(_ hub: RunningHub, _ path: String, _ body: [String: Any]?, secret: String? = nil) throws -> Reply {
        let connection = try hub.connection()
        let content = try body.map { try JSONSerialization.data(withJSONObject: $0) } ?? Data()
        var head = "\(body == nil ? "GET" : "POST") \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        head += "Content-Type: application/json\r\nContent-Length: \(content.count)\r\n"
        if let secret { head += "Authorization: Bearer \(secret)\r\n" }
        try connection.write(contentsOf: Data((head + "\r\n").utf8) + content)
        let text = String(decoding: try connection.readToEnd() ?? Data(), as: UTF8.self)
        let status = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        let answer = text.range(of: "\r\n\r\n").map { String(text[$0.upperBound...]) } ?? ""
        let json = try? JSONSerialization.jsonObject(with: Data(answer.utf8)) as? [String: Any]
        return Reply(status: status, json: json ?? [:], text: answer)
    }

    private func call(_ hub: RunningHub, _ name: String, _ body: [String: Any]) throws -> Reply {
        try ask(hub, "/identitytoolkit.googleapis.com/v1/accounts:\(name)?key=any", body)
    }

    private func administer(_ hub: RunningHub, _ name: String, _ body: [String: Any], _ secret: String) throws -> Reply {
        try ask(hub, "/identitytoolkit.googleapis.com/v1/accounts:\(name)", body, secret: secret)
    }

    private func refresh(_ hub: RunningHub, _ token: String) throws -> Reply {
        try ask(hub, "/securetoken.googleapis.com/v1/token?key=any", ["grantType": "refresh_token", "refreshToken": token])
    }

    private let ana = ["email": "ana@x.org", "password": "correct horse"]

    private func firstSecret(_ hub: RunningHub) throws -> String {
        try String(contentsOf: hub.folder.url.appendingPathComponent("data/admin-secret.txt"), encoding: .utf8)
            .trimmingCharacters(in: .whitespacesAndNewlines)
    }

    private static let open = #"{"rules":{".read":"auth != null",".write":"auth != null"}}"#
    private static let closed = #"{"rules":{".read":false,"y":{".read":true}}}"#

    @Test func account_ofOneHub_isOfAll_alsoAfterKills() throws {
        var hubs = try hubs(options, rules: [Self.open, nil, nil])
        let made = try call(hubs[0], "signUp", ana)
        #expect(made.status == 200, "\(made)")
        // The others accept it and its tokens immediately.
        #expect(try call(hubs[1], "signInWithPassword", ana).status == 200)
        #expect(try refresh(hubs[2], made["refreshToken"]).status == 200)
        #expect(try ask(hubs[1], "/x.json?auth=\(made["idToken"])", nil).status == 200)
        #expect(try ask(hubs[2], "/x.json?auth=\(made["idToken"])", nil).status == 200)
        // Secrets are shared: the first hub has created it for all three.
        let secret = try firstSecret(hubs[0])
        #expect(!FileManager.default.fileExists(atPath: hubs[1].folder.at("data/admin-secret.txt")))
        #expect(try administer(hubs[2], "lookup", ["email": ["ana@x.org"]], secret).status == 200)
        // Acknowledged changes outlive the hub that acknowledged them, and reach hubs that were away.
        let (folder, follower) = (hubs[2].folder, hubs[1].folder)
        _ = hubs[1].stop(SIGKILL)
        let other = try call(hubs[2], "signUp", ["email": "bo@x.org", "password": "correct horse"])
        #expect(other.status == 200)
        _ = hubs[2].stop(SIGKILL)
        #expect(try call(hubs[0], "signInWithPassword", ["email": "bo@x.org", "password": "correct horse"]).status == 200)
        hubs[1] = try RunningHub(options, folder: follower)
        hubs[2] = try RunningHub(options, folder: folder)
        for hub in hubs.dropFirst() { #expect(try refresh(hub, other["refreshToken"]).status == 200) }
        // No log of a process contains a secret.
        for hub in hubs { #expect(!hub.error.contains("scrypt") && !hub.error.contains(made["refreshToken"])) }
    }

    @Test func disabledAccount_losesItsConnectionsOnAllHubs() throws {
        let hubs = try hubs(options, rules: [Self.open, nil, nil])
        let secret = try firstSecret(hubs[0])
        let made = try call(hubs[0], "signUp", ana)
        // Two observers of that user, on two hubs.
        let watchers = try hubs.prefix(2).map { hub in
            let connection = try hub.connection()
            let request = "GET /x.json?auth=\(made["idToken"]) HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
            try connection.write(contentsOf: Data(request.utf8))
            return connection
        }
        let heard = watchers.map { _ in Handover<String>() }
        for (watcher, heard) in zip(watchers, heard) {
            Thread {
                var text = ""
                while !text.contains("auth_revoked"), let more = try? watcher.read(upToCount: 4096), !more.isEmpty {
                    text += String(decoding: more, as: UTF8.self)
                }
                heard.put(text)
            }.start()
        }
        let isObserved = "vigla_observers{namespace=\"default\"} 1"
        #expect(try becomes { try hubs.prefix(2).allSatisfy { try $0.page("/.metrics").contains(isObserved) } })
        let began = DispatchTime.now()
        #expect(try administer(hubs[2], "update", ["localId": made["localId"], "disableUser": true], secret).status == 200)
        for heard in heard { #expect(heard.wait().contains("auth_revoked")) }
        print("connections of a disabled account ended on other hubs after", began.ms, "ms")
        for hub in hubs {
            #expect(try refresh(hub, made["refreshToken"]).error == "USER_DISABLED")
            #expect(try ask(hub, "/x.json?auth=\(made["idToken"])", nil).status == 401)
        }
    }

    @Test func deployedRules_areInForceOnAll_andFilesOnlyWhereThereAreNone() throws {
        var hubs = try hubs(options, rules: [Self.closed, Self.open, nil])
        let secret = try firstSecret(hubs[0])
        let made = try call(hubs[0], "signUp", ana)
        func status(_ hub: RunningHub) throws -> Int { try ask(hub, "/x.json?auth=\(made["idToken"])", nil).status }
        // The first hub's file is deployed; the second one's is not in force.
        for hub in hubs { #expect(try becomes { try status(hub) == 401 }) }
        #expect(becomes { hubs[1].error.contains("the rules file is not in force") })
        let secretFile = try hubs[0].folder.file("secret.txt", secret)
        func deploy(_ rules: String, _ hub: RunningHub) throws {
            let file = try hubs[0].folder.file("deployed.json", rules)
            let result = try Command.run("rules", "deploy", hub.url, file, "--auth-file", secretFile)
            #expect(result.code == 0, "\(result)")
        }
        try deploy(Self.open, hubs[2])
        for hub in hubs { #expect(try becomes { try status(hub) == 200 }) }
        // After a kill, with a deploy meanwhile, and a file with other rules.
        let folder = hubs[1].folder
        _ = hubs[1].stop(SIGKILL)
        try deploy(Self.closed, hubs[2])
        hubs[1] = try RunningHub(options + ["--rules", folder.at("rules.json")], folder: folder)
        for hub in hubs { #expect(try becomes { try status(hub) == 401 }) }
        #expect(hubs.allSatisfy { $0.stop() == 0 })
    }

    @Test func secret_thatIsRevokedOnOneHub_isRevokedOnAll() throws {
        let hubs = try hubs(options)
        let secret = try firstSecret(hubs[0])
        let made = try ask(hubs[1], "/.settings/secrets.json", ["name": "backup"], secret: secret)
        let text = made["secret"]
        #expect(!text.isEmpty, "\(made)")
        for hub in hubs { #expect(try becomes { try ask(hub, "/.settings/secrets.json", nil, secret: text).status == 200 }) }
        let id = made["id"]
        let result = try Command.run(
            "secret", "remove", hubs[2].url, "--id", id, "--auth-file", try hubs[0].folder.file("secret.txt", secret))
        #expect(result.code == 0, "\(result)")
        for hub in hubs { #expect(try becomes { try ask(hub, "/.settings/secrets.json", nil, secret: text).status == 401 }) }
        _ = hubs[0].stop()
        // Not while the cluster is running.
        let offline = try Command.run("secret", "add", "--data", hubs[0].folder.at("data"))
        #expect(offline.code != 0 && offline.error.contains("is of a cluster"), "\(offline)")
    }

    @Test func hubs_withoutServers_readAndRefresh_andSayWhyTheyRecordNothing() throws {
        let own = try TestCluster()
        let hubs = try hubs(Self.options(own), rules: [Self.open, nil, nil])
        let made = try call(hubs[0], "signUp", ana)
        #expect(made.status == 200)
        #expect(try refresh(hubs[1], made["refreshToken"]).status == 200)
        for i in 0..<3 { own.signal(i, SIGSTOP) }
        // The first one waits for an answer, the others are answered immediately.
        var took: [UInt64] = []
        for _ in 0..<3 {
            let began = DispatchTime.now()
            let refused = try call(hubs[0], "signUp", ["email": "bo@x.org", "password": "correct horse"])
            took.append(began.ms)
            #expect(refused.status == 503 && refused.text.contains("log of this hub's cluster"), "\(refused)")
        }
        print("sign-ups without servers were refused after", took, "ms")
        #expect(try refresh(hubs[0], made["refreshToken"]).status == 200)
        #expect(try ask(hubs[1], "/x.json?auth=\(made["idToken"])", nil).status == 200)
        for i in 0..<3 { own.signal(i, SIGCONT) }
        #expect(try becomes { try call(hubs[1], "signUp", ["email": "cy@x.org", "password": "correct horse"]).status == 200 })
        // The third one reconnects to the servers after a while. Its first answer other than 503 knows the account.
        var signedIn: Reply?
        #expect(try becomes {
            signedIn = try call(hubs[2], "signInWithPassword", ["email": "cy@x.org", "password": "correct horse"])
            return signedIn?.status != 503
        })
        #expect(signedIn?.status == 200, "\(String(describing: signedIn))")
    }
}

extension DispatchTime {
    /// Milliseconds since then.
    fileprivate var ms: UInt64 { (DispatchTime.now().uptimeNanoseconds - uptimeNanoseconds) / 1_000_000 }
}
#endif
