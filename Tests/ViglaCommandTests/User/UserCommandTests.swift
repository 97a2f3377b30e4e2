import Foundation
import Testing
import TestSupport

/// `vigla user` and `vigla token` with a real production hub, called as by an app.
@Suite(.timeLimit(.minutes(30))) struct UserCommandTests {
    /// A hub, and the secret of its administrator.
    private struct City {
        let folder: TemporaryFolder
        let hub: RunningHub
        let secret: String
        private let arguments: [String]

        init(_ arguments: [String] = []) throws {
            folder = try TemporaryFolder()
            let made = try Command.run("secret", "add", "--data", "data", in: folder.url)
            secret = made.output.trimmingCharacters(in: .newlines)
            _ = try folder.file("secret.txt", secret + "\n")
            _ = try folder.file("password.txt", "correct horse\n")
            _ = try folder.file("accounts.json", #"{"signing":"ES256","oauth-password":true}"#)
            _ = try folder.file("rules.json", #"{"rules":{"users":{"$u":{".read":"auth.uid == $u",".write":"auth.uid == $u"}},"#
                + #""news":{".read":true,".write":"auth.token.role == 'staff'"}}}"#)
            self.arguments = [
                "--port", "0", "--data", "data", "--rules", "rules.json", "--accounts", "accounts.json", "--log-level", "trace",
            ] + arguments
            hub = try RunningHub(self.arguments, folder: folder)
        }

        private init(_ other: City) throws {
            (folder, secret, arguments) = (other.folder, other.secret, other.arguments)
            hub = try RunningHub(arguments, folder: folder)
        }

        /// A hub on the same folder, after this one has ended.
        func successor() throws -> City { try City(self) }

        func run(_ arguments: String..., input: String? = nil) throws -> Command.Result {
            try Command.run(arguments, environment: ["VIGLA_AUTH_FILE": "secret.txt"], input: input, in: folder.url)
        }

        /// Runs a command that must succeed.
        @discardableResult
        func done(_ arguments: String...) throws -> String {
            let result = try Command.run(arguments, environment: ["VIGLA_AUTH_FILE": "secret.txt"], in: folder.url)
            #expect(result.code == 0, "\(arguments): \(result.error)")
            return result.output.trimmingCharacters(in: .newlines)
        }

        /// A client endpoint's answer.
        func call(_ name: String, _ body: String) throws -> [String: Any] {
            try post("/identitytoolkit.googleapis.com/v1/accounts:\(name)?key=any", body, "application/json")
        }

        func post(_ target: String, _ body: String, _ type: String) throws -> [String: Any] {
            let connection = try hub.connection()
            let head = "POST \(target) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: \(type)\r\nContent-Length: "
                + "\(body.utf8.count)\r\n\r\n"
            try connection.write(contentsOf: Data((head + body).utf8))
            let answer = String(decoding: try connection.readToEnd() ?? Data(), as: UTF8.self)
            let json = answer.firstRange(of: "\r\n\r\n").map { String(answer[$0.upperBound...]) } ?? ""
            return try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any] ?? [:]
        }

        /// Signs in.
        /// - Returns: the ID token.
        func signIn(_ email: String, _ password: String = "correct horse") throws -> String {
            try #require(try call("signInWithPassword", #"{"email":"\#(email)","password":"\#(password)"}"#)["idToken"] as? String)
        }

        func fault(_ answer: [String: Any]) -> String { (answer["error"] as? [String: Any])?["message"] as? String ?? "" }

        /// The status of a REST request, such as `200`.
        func status(_ place: String, _ token: String) throws -> String {
            String(try hub.page("\(place).json?auth=\(token)").split(separator: " ")[1])
        }
    }

    /// Also checks that the most verbose log holds no secret.
    @Test func account_isMadeShownChangedAndRemoved() throws {
        let city = try City()
        let url = city.hub.url
        let id = try city.done(
            "user", "add", url, "--email", "Ana@x.org", "--name", "Ana K", "--alias", "ana", "--password-file", "password.txt",
            "--verified")
        #expect(id.count == 28)
        let token = try city.signIn("ana@x.org")
        #expect(try city.status("/users/\(id)", token) == "200" && city.status("/users/other", token) == "401")
        #expect(try city.done("user", "list", url) == "\(id)  ana@x.org  Ana K")
        for name in [id, "ana@x.org", "ana"] {
            let shown = try city.done("user", "show", url, name)
            #expect(
                shown.contains("\"localId\":\"\(id)\"") && shown.contains("\"alias\":\"ana\"") && shown.contains("\"emailVerified\":true"),
                "\(shown)")
            #expect(!shown.contains("$scrypt"))
        }
        try city.done("user", "disable", url, "ana")
        #expect(try city.fault(city.call("signInWithPassword", #"{"email":"ana@x.org","password":"correct horse"}"#)) == "USER_DISABLED")
        #expect(try city.status("/users/\(id)", token) == "401", "its tokens count no longer")
        #expect(try city.done("user", "list", url).hasSuffix("  disabled"))
        try city.done("user", "enable", url, "ana")
        _ = try city.folder.file("new.txt", "another horse\n")
        try city.done("user", "password", url, "ana", "--password-file", "new.txt")
        #expect(try city.fault(
            city.call("signInWithPassword", #"{"email":"ana@x.org","password":"correct horse"}"#)) == "INVALID_LOGIN_CREDENTIALS")
        _ = try city.signIn("ana@x.org", "another horse")
        try city.done("user", "alias", url, "ana", "--none")
        #expect(try city.run("user", "show", url, "ana").error.contains("there is no such account"))
        try city.done("user", "remove", url, "ana@x.org")
        #expect(try city.done("user", "list", url).isEmpty)
        #expect(city.hub.stop() == 0)
        for secret in ["correct horse", "another horse", city.secret, token] {
            #expect(!city.hub.error.contains(secret), "nothing secret in the log")
        }
    }

    @Test func accountThatCannotHaveItsAlias_orNothingToSignInWith_isNotMade() throws {
        let city = try City()
        let url = city.hub.url
        let first = try city.done("user", "add", url, "--alias", "Ana", "--password-file", "password.txt")
        #expect(try city.done("user", "show", url, "ana").contains("\"alias\":\"ana\""))
        for (alias, words) in [("ana", "another account has this alias"), ("a@b", "an alias has 1 to 64")] {
            let refused = try city.run("user", "add", url, "--email", "bo@x.org", "--alias", alias, "--no-password")
            #expect(refused.code == 1 && refused.output.isEmpty && refused.error.contains(words), "\(refused.error)")
        }
        let nameless = try city.run("user", "add", url, "--name", "Bo", "--password-file", "password.txt")
        #expect(nameless.code == 64 && nameless.error.contains("--email or --alias"))
        #expect(try city.done("user", "list", url).hasPrefix(first) && !city.done("user", "list", url).contains("\n"))
    }

    @Test func claims_reachTheRules() throws {
        let city = try City()
        try city.done("user", "add", city.hub.url, "--email", "ana@x.org", "--password-file", "password.txt")
        func write(_ token: String) throws -> Int32 { try Command.run("set", city.hub.url + "/news", "1", "--auth", token).code }
        #expect(try write(city.signIn("ana@x.org")) == 1)
        try city.done("user", "claims", city.hub.url, "ana@x.org", #"{"role":"staff"}"#)
        #expect(try write(city.signIn("ana@x.org")) == 0)
        try city.done("user", "claims", city.hub.url, "ana@x.org", "{}")
        #expect(try write(city.signIn("ana@x.org")) == 1)
        #expect(try city.run("user", "claims", city.hub.url, "ana@x.org", "5").code == 1)
        #expect(try city.run("user", "claims", city.hub.url, "ana@x.org", #"{"sub":"x"}"#).error.contains("'sub' is the hub's own"))
    }

    @Test func sessions_areListedAndEnded_andTokensMinted() throws {
        let city = try City()
        let url = city.hub.url
        let id = try city.done("user", "add", url, "--email", "ana@x.org", "--alias", "ana", "--password-file", "password.txt")
        let token = try city.signIn("ana@x.org")
        let minted = try city.done("token", "mint", url, "--user", "ana")
        #expect(try city.status("/users/\(id)", token) == "200" && city.status("/users/\(id)", minted) == "200")
        let lines = try city.done("user", "sessions", url, "ana").split(separator: "\n").map { $0.split(separator: " ") }
        #expect(lines.count == 2)
        let own = try #require(lines.first { $0[2] == "password" })
        #expect(try city.done("user", "end-session", url, "ana", String(own[0])) == "1 session ended")
        #expect(try city.status("/users/\(id)", token) == "401" && city.status("/users/\(id)", minted) == "200")
        #expect(try city.done("user", "end-session", url, "ana", "--all") == "1 session ended")
        #expect(try city.status("/users/\(id)", minted) == "401")
        let kid = try city.done("token", "rotate-key", url)
        #expect(try city.hub.page("/.well-known/jwks.json").contains(kid))
        let granted = try city.post(
            "/.oauth/token", "grant_type=password&username=ana&password=correct+horse", "application/x-www-form-urlencoded")
        #expect(granted["token_type"] as? String == "Bearer" && granted["expires_in"] as? Int == 3600)
        #expect(try city.status("/users/\(id)", try #require(granted["access_token"] as? String)) == "200")
    }

    @Test func withoutASecret_nothingIsTold_andPasswordsAreNoArguments() throws {
        let city = try City()
        let url = city.hub.url
        let without = try Command.run("user", "list", url)
        #expect(without.code == 1 && without.output.isEmpty && without.error.contains("administrator"))
        #expect(try Command.run("user", "list", url, "--auth", "owner").code == 1, "not in production")
        #expect(try city.run("user", "add", url, "--email", "a@x.org", "--password", "secret").code == 64)
        #expect(try city.run("user", "add", url, "--email", "a@x.org").error.contains("no terminal"))
        #expect(
            try city.run("user", "add", url, "--email", "a@x.org", "--password-file", "-", input: "short\n").error
                .contains("takes passwords of 8 characters or more")
        )
        #expect(try city.run("user", "add", url, "--email", "a@x.org", "--password-file", "-", input: "correct horse\n").code == 0)
        #expect(try city.run("user", "add", url, "--email", "a@x.org", "--no-password").error.contains("another account has this address"))
        #expect(try city.run("user", "show", "http://127.0.0.1:1", "x").error.contains("Is the hub running"))
        for wrong in [
            ["end-session", url, "ana"], ["end-session", url, "ana", "x", "--all"], ["alias", url, "ana"],
            ["alias", url, "ana", "x", "--none"],
        ] {
            #expect(try Command.run(["user"] + wrong).code == 64, "\(wrong)")
        }
    }

    @Test func withdrawnClaim_staysWithdrawn_acrossAKill() throws {
        let city = try City()
        let url = city.hub.url
        _ = try city.done("user", "add", url, "--email", "ana@x.org", "--alias", "ana", "--password-file", "password.txt")
        try city.done("user", "claims", url, "ana", #"{"role":"staff"}"#)
        let staff = try city.signIn("ana@x.org")
        #expect(try Command.run("set", url + "/news", "1", "--auth", staff).code == 0)
        try city.done("user", "claims", url, "ana", "{}")
        #expect(try city.status("/news", staff) == "401")
        _ = city.hub.stop(SIGKILL)
        let next = try city.successor()
        #expect(try next.status("/news", staff) == "401")
        #expect(try Command.run("set", next.hub.url + "/news", "2", "--auth", staff).code == 1)
        #expect(try next.status("/news", try next.signIn("ana@x.org")) == "200")
        #expect(next.hub.stop() == 0)
    }

    /// The vendor's export has second factors. A hub does not support them, and drops them only on request.
    @Test func import_takesEverythingOver_andDropsNoProtectionUnasked() throws {
        let city = try City()
        let url = city.hub.url
        _ = try city.folder.file("export.json", #"{"users":[{"localId":"ana","email":"ana@x.org","emailVerified":true,"#
            + #""phoneNumber":"+3069","lastSignedInAt":"1700000000456","createdAt":"1600000000123"},"#
            + #"{"localId":"bo","email":"bo@x.org","emailVerified":true,"mfaInfo":[{"phoneInfo":"+3070"}]}]}"#)
        let result = try city.run("user", "import", url, "export.json")
        #expect(result.code == 1 && result.output.contains("1 account imported, 1 refused"))
        #expect(result.error.contains("bo@x.org: OPERATION_NOT_ALLOWED : There are no second factors here"), "\(result.error)")
        let ana = try city.done("user", "show", url, "ana")
        #expect(ana.contains("+3069") && ana.contains(#""lastLoginAt":"1700000000456""#), "\(ana)")
        #expect(try city.run("user", "show", url, "bo").code == 1)
        let again = try city.run("user", "import", url, "export.json", "--drop-second-factors", "--overwrite")
        #expect(again.code == 0 && again.output.contains("2 accounts imported"), "\(again.error)")
    }

    /// Killed at any moment of the deletion: either the account exists, or its data is removed.
    @Test func deletedAccountsData_isRemoved_alsoAcrossAKill() throws {
        for round in 0..<4 {
            let city = try City(["--on-account-deletion", "/users/$uid"])
            let id = try city.done("user", "add", city.hub.url, "--email", "ana@x.org", "--password-file", "password.txt")
            let token = try city.signIn("ana@x.org")
            #expect(try Command.run("set", city.hub.url + "/users/\(id)", "1", "--auth", token).code == 0)
            if round == 0 {
                let deleted = try city.call("delete", #"{"idToken":"\#(token)"}"#)
                #expect(deleted["kind"] as? String == "identitytoolkit#DeleteAccountResponse", "\(deleted)")
                #expect(try city.hub.page("/users.json?auth=\(city.secret)").split(separator: "\r\n").last == "null")
                #expect(city.hub.stop() == 0)
            } else {
                // The test does not wait for the answer, which comes after the removal.
                let connection = try city.hub.connection()
                let body = #"{"idToken":"\#(token)"}"#
                try connection.write(contentsOf: Data(("POST /identitytoolkit.googleapis.com/v1/accounts:delete?key=any HTTP/1.1\r\nHost: "
                    + "localhost\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)").utf8))
                _ = city.hub.stop(SIGKILL)
            }
            let next = try city.successor()
            if try next.run("user", "show", next.hub.url, id).code == 0 { continue }
            // The removal may still run when the hub is ready, so the page is requested until it is empty.
            #expect(try becomes { try next.hub.page("/users.json?auth=\(city.secret)").split(separator: "\r\n").last == "null" })
            #expect(next.hub.stop() == 0)
        }
    }

    @Test func backup_holdsTheAccounts() throws {
        let city = try City()
        let id = try city.done("user", "add", city.hub.url, "--email", "ana@x.org", "--password-file", "password.txt")
        #expect(try Command.run("backup", "--data", "data", "--to", "kept", in: city.folder.url).code == 0)
        try city.done("user", "remove", city.hub.url, id)
        #expect(city.hub.stop() == 0)
        let kept = city.folder.url.appendingPathComponent("kept/accounts.sqlite").path
        #expect(try FileManager.default.attributesOfItem(atPath: kept)[.posixPermissions] as? Int == 0o600)
        #expect(try Command.run("backup", "--restore", "--from", "kept", "--data", "data", "--replace", in: city.folder.url).code == 0)
        let restored = try city.successor()
        _ = try restored.signIn("ana@x.org")
        #expect(restored.hub.stop() == 0)
    }
}
