import Accounts
import Cryptography
import Foundation
import JSONTree
import SecurityRules
import TestHub
import Testing
import TestSupport
import Tokens
@testable import HubServer

/// The issuers that a database's accounts trust, and the database that they belong to.
@Suite(.timeLimit(.minutes(30))) struct ProjectTrustTests {
    private static let accounts = "/identitytoolkit.googleapis.com/v1/accounts"

    private static func settings(_ project: String = "default") -> AccountSettings {
        var settings = AccountSettings()
        // A key of this algorithm is generated quickly.
        settings.signingAlgorithm = .es256
        settings.project = project
        return settings
    }

    private func member(_ name: String, of answer: String) throws -> String {
        let found = try answer.firstMatch(of: Regex("\"\(name)\": *\"([^\"]+)\"", as: (Substring, Substring).self))
        return String(try #require(found, "\(name) in \(answer)").1)
    }

    private func signUp(_ server: TestServer, _ query: String) throws -> String {
        try DatabaseTests.ask(
            server, "POST", "\(Self.accounts):signUp?\(query)",
            #"{"email":"ana@example.org","password":"correct horse battery","returnSecureToken":true}"#)
    }

    /// A token that one product's identity provider has signed is nothing in another product's database, and neither is a custom token.
    @Test func ownAccounts_doNotInheritWhomTheHubTrusts() throws {
        // Another hub is the identity provider.
        let provider = try DatabaseTests.server(nil) { $0.accounts = Self.settings("provider") }
        // A guest: hashing a password takes long while other tests run.
        let guest = #"{"returnSecureToken":true}"#
        let foreign = try member("idToken", of: DatabaseTests.ask(provider, "POST", "\(Self.accounts):signUp?key=any", guest))
        let stored = try StoredSigningKey.generate(.rs256, now: 0)
        let name = "server@app.iam.gserviceaccount.com"
        let der = try PrivateKey(der: stored.privateKey).publicKey.der()
        let lines = Data(der).base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed])
        let pem = "-----BEGIN PUBLIC KEY-----\n\(lines)\n-----END PUBLIC KEY-----\n"
        let issuer = try CustomTokenIssuer(name: name, publicKeys: [pem])
        let signedIn = try RuleSet(parsing: #"{"rules":{".read":"auth != null"}}"#)
        let keys = "http://127.0.0.1:\(provider.port)/.well-known/jwks.json"
        let server = try DatabaseTests.server(nil) {
            $0.isDev = true
            var settings = Self.settings()
            settings.isDev = true
            settings.externalIssuers = [
                ExternalIssuer(issuer: "https://securetoken.google.com/provider", audiences: ["provider"], keys: .keySet(keys))
            ]
            settings.customTokenIssuers = [issuer]
            $0.accounts = settings
            $0.databases = ["main", "own", "file", "shared"].map { DatabaseSettings($0, rules: signedIn) }
            $0.databases[2].accounts = .own(settings)
            $0.databases[3].accounts = .shared
        }
        let now = Int64(Date().timeIntervalSince1970)
        let claims: JSONValue = [
            "iss": .string(name), "sub": .string(name), "uid": "ana", "iat": .int(now), "exp": .int(now + 600),
            "aud": "https://identitytoolkit.googleapis.com/google.identity.identitytoolkit.v1.IdentityToolkit",
        ]
        let custom = try SigningKey(stored).sign(claims.bytes)
        for (database, isTrusted) in [("main", true), ("shared", true), ("file", true), ("own", false)] {
            let signIn = try DatabaseTests.ask(
                server, "POST", "\(Self.accounts):signInWithCustomToken?key=any&ns=\(database)",
                "{\"token\":\"\(custom)\",\"returnSecureToken\":true}")
            let isRefused = signIn.contains("CREDENTIAL_MISMATCH") || signIn.contains("INVALID_CUSTOM_TOKEN")
            #expect(isTrusted ? signIn.hasPrefix("200 ") : isRefused, "\(database): \(signIn)")
        }
        // Where it is trusted, its keys would be fetched, which takes long while other tests run.
        #expect(try DatabaseTests.ask(server, "GET", "/a.json?ns=own&auth=\(foreign)").hasPrefix("401 "))
        var trusting = Self.settings()
        trusting.externalIssuers = [ExternalIssuer(issuer: "https://id.example", audiences: ["app"])]
        #expect(DatabaseAccounts.own(nil).settings(of: "own", hub: trusting)?.externalIssuers == [])
        #expect(DatabaseAccounts.own(trusting).settings(of: "own", hub: Self.settings())?.externalIssuers == trusting.externalIssuers)
        var hub = Self.settings()
        hub.identityProviders = [.google(clientIDs: ["app"])]
        #expect(DatabaseSettings("own").accounts.isOwn)
        let own = try DatabaseTests.server(nil) {
            $0.accounts = hub
            $0.databases.append(DatabaseSettings("own"))
        }
        let body = #"{"postBody":"id_token=x&providerId=google.com","requestUri":"http://localhost","returnSecureToken":true}"#
        #expect(try DatabaseTests.ask(own, "POST", "\(Self.accounts):signInWithIdp?key=own", body).contains("OPERATION_NOT_ALLOWED"))
        #expect(try !DatabaseTests.ask(own, "POST", "\(Self.accounts):signInWithIdp?key=any", body).contains("OPERATION_NOT_ALLOWED"))
    }

    /// The hub's users are those of each database that shares them: only the hub's administrators administer them.
    @Test func secretOfTheDefaultDatabase_doesNotAdministerTheHubsUsers() async throws {
        let server = try DatabaseTests.server(nil) {
            $0.accounts = Self.settings()
            $0.databases.append(DatabaseSettings("shared"))
            $0.databases[1].accounts = .shared
        }
        let hub = try await DatabaseTests.secret(server)
        let made = try DatabaseTests.ask(server, "POST", "/.settings/secrets.json?ns=main", #"{"name":"of main"}"#, by: hub)
        let own = try member("secret", of: made)
        #expect(try DatabaseTests.ask(server, "PUT", "/a.json", "1", by: own) == "200 1")
        let path = "/identitytoolkit.googleapis.com/v1/projects/default/accounts"
        #expect(try DatabaseTests.ask(server, "POST", path, #"{"localId":"ana"}"#, by: own).hasPrefix("401 "))
        #expect(try DatabaseTests.ask(server, "POST", path, #"{"localId":"ana"}"#, by: hub).hasPrefix("200 "))
    }

    /// The default database has the hub's accounts. Another one in its place would get its users, whichever way it takes the place.
    @Test func otherDefaultDatabase_doesNotGetItsAccounts() throws {
        func start(_ folder: TemporaryFolder, _ names: [String], accounts: AccountSettings? = Self.settings()) throws {
            let next = try DatabaseTests.server(folder.path) {
                $0.accounts = accounts
                $0.databases = names.map { DatabaseSettings($0, rules: .allowAll) }
            }
            _ = try DatabaseTests.ask(next, "PUT", "/a.json", "1")
            next.stop()
        }
        let folder = try TemporaryFolder()
        try start(folder, ["watchme", "planner"])
        #expect(throws: ServerError.self) { try start(folder, ["planner", "watchme"]) }
        #expect(throws: ServerError.self, "alone") { try start(folder, ["planner"]) }
        // Without accounts there is nothing to guard, and nothing is recorded.
        try start(folder, ["planner"], accounts: nil)
        #expect(throws: ServerError.self, "after a start without accounts") { try start(folder, ["planner"]) }
        try start(folder, ["watchme"])

        let data = try TemporaryFolder()
        try start(data, ["watchme"])
        #expect(throws: ServerError.self, "there is data of another one") { try start(data, ["planner"]) }
        // One that nobody has used yet may be renamed.
        let new = try TemporaryFolder()
        let empty = try DatabaseTests.server(new.path) {
            $0.accounts = Self.settings()
            $0.namespace = "watchme"
        }
        empty.stop()
        #expect(throws: ServerError.self, "the next one would be another database's") { try start(new, ["planner", "watchme"]) }
        try start(new, ["planner"])
        #expect(throws: ServerError.self) { try start(new, ["watchme"]) }
    }

    /// Requests that name the hub's project must reach the hub's accounts.
    @Test func databaseOfTheProjectsName_isRefused() async throws {
        let server = try DatabaseTests.server(nil) { $0.accounts = Self.settings("app") }
        let hub = try await DatabaseTests.secret(server)
        #expect(try DatabaseTests.ask(server, "PUT", "/.settings/databases/app.json", "{}", by: hub).hasPrefix("409 "))
        try DatabaseTests.create(server, "app", "shared", by: hub)
        #expect(throws: ServerError.self) {
            try DatabaseTests.server(nil) {
                $0.accounts = Self.settings("app")
                $0.databases.append(DatabaseSettings("app"))
            }
        }
    }

    /// Users of a removed database stay gone, whatever the next start names.
    @Test func removedDatabase_namedAgainByTheConfiguration_hasNoneOfItsUsers() throws {
        let folder = try TemporaryFolder()
        func start(_ names: [String]) throws -> TestServer {
            try DatabaseTests.server(folder.path) {
                $0.accounts = Self.settings()
                $0.databases = names.map { DatabaseSettings($0) }
            }
        }
        var server = try start(["main", "planner"])
        #expect(try signUp(server, "key=planner").hasPrefix("200 "))
        // Killed behind the transaction of a removal.
        try server.note(#"{"default":"main","databases":[],"removed":["planner"]}"#)
        server.stop()
        server = try start(["main", "planner"])
        #expect(try signUp(server, "key=planner").hasPrefix("200 "), "the address is free again")
        server.stop()
        server = try start(["main", "planner"])
        #expect(try signUp(server, "key=planner").contains("EMAIL_EXISTS"), "the removal is done, once")
        try server.note(#"{"default":"main","databases":[],"removed":["other"]}"#)
        server.stop()
        // What cannot be deleted must not be forgotten.
        _ = try folder.file("accounts-other.sqlite/x", "")
        #expect(throws: ServerError.self) { try start(["main", "planner"]) }
        try folder.remove("accounts-other.sqlite")
        try start(["main", "planner"]).stop()
    }

    @Test func accountsWithoutData_areHeld_untilTheyAreRemoved() async throws {
        let folder = try TemporaryFolder()
        var server = try DatabaseTests.server(folder.path) {
            $0.accounts = Self.settings()
            $0.databases.append(DatabaseSettings("planner"))
        }
        let hub = try await DatabaseTests.secret(server)
        #expect(try signUp(server, "key=planner").hasPrefix("200 "))
        server.stop()
        server = try DatabaseTests.server(folder.path) { $0.accounts = Self.settings() }
        #expect(try DatabaseTests.ask(server, "PUT", "/.settings/databases/planner.json", "{}", by: hub).hasPrefix("409 "))
        #expect(try DatabaseTests.ask(server, "DELETE", "/.settings/databases/planner.json", by: hub) == "200 null\n")
        #expect(!FileManager.default.fileExists(atPath: folder.at("accounts-planner.sqlite")))
        #expect(try DatabaseTests.ask(server, "PUT", "/.settings/databases/planner.json", "{}", by: hub).hasPrefix("200 "))
        #expect(try signUp(server, "key=planner").hasPrefix("200 "), "the address is free again")
        server.stop()
    }
}
