import Accounts
import Foundation
import HubServer
import SecurityRules
import TestHub
import Testing
import TestSupport
import Tokens

/// Accounts of one database are unknown to the others, unless they share them.
@Suite(.timeLimit(.minutes(30))) struct ProjectTests {
    private static let rules = #"""
        {"rules":{"who":{"$uid":{".read":"auth.uid == $uid",".write":"auth.uid == $uid",".account":true}},
          "staff":{".read":"auth.token.role == 'staff'"}}}
        """#
    private static let accounts = "/identitytoolkit.googleapis.com/v1/accounts"

    /// `main` and `shared` have the hub's accounts, `a` and `b` each their own.
    private func server(_ folder: String? = nil) throws -> TestServer {
        let rules = try RuleSet(parsing: Self.rules)
        return try DatabaseTests.server(folder) {
            var settings = AccountSettings()
            // A key of this algorithm is generated quickly.
            settings.signingAlgorithm = .es256
            settings.recentLoginSeconds = 0
            $0.accounts = settings
            $0.databases = ["main", "a", "b", "shared"].map { DatabaseSettings($0, rules: rules) }
            $0.databases[3].accounts = .shared
        }
    }

    private struct User {
        let uid: String
        let token: String
        let refresh: String

        init(_ answer: String) throws {
            func member(_ name: String) throws -> String {
                let found = try answer.firstMatch(of: Regex("\"\(name)\": *\"([^\"]+)\"", as: (Substring, Substring).self))
                return String(try #require(found, "\(name) in \(answer)").1)
            }
            (uid, token, refresh) = (try member("localId"), try member("idToken"), try member("refreshToken"))
        }
    }

    private func signUp(_ server: TestServer, _ query: String) throws -> User {
        try User(DatabaseTests.ask(
            server, "POST", "\(Self.accounts):signUp?\(query)",
            #"{"email":"ana@example.org","password":"correct horse battery","returnSecureToken":true}"#))
    }

    private func write(_ server: TestServer, _ user: User, to database: String) throws -> String {
        try DatabaseTests.ask(server, "PUT", "/who/\(user.uid).json?ns=\(database)&auth=\(user.token)", "1")
    }

    /// The same address is a user of its own everywhere; a request names the database by `ns`, by its API key or by its host.
    @Test func sameAddress_isAnotherUser_andNoTokenHoldsElsewhere() throws {
        let server = try server()
        let users = [
            "main": try signUp(server, "key=any"), "a": try signUp(server, "key=a"), "b": try signUp(server, "key=any&ns=b"),
        ]
        #expect(Set(users.values.map(\.uid)).count == 3)
        for (home, user) in users {
            for database in ["main", "a", "b", "shared"] {
                let isHome = database == home || home == "main" && database == "shared"
                let answer = try write(server, user, to: database)
                #expect(isHome ? answer == "200 1" : answer.hasPrefix("401 "), "\(home) in \(database): \(answer)")
            }
            let token = "/securetoken.googleapis.com/v1/token?key="
            let body = "grant_type=refresh_token&refresh_token=\(user.refresh)"
            for (other, _) in users {
                let socket = try TestSocket(port: server.port)
                try socket.send(
                    "POST \(token)\(other) HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
                        + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
                #expect(try (socket.response().status == 200) == (other == home), "\(home) at \(other)")
            }
        }
        let body = #"{"email":"ana@example.org","password":"correct horse battery","returnSecureToken":true}"#
        let socket = try TestSocket(port: server.port)
        try socket.send(
            "POST \(Self.accounts):signInWithPassword?key=any HTTP/1.1\r\nHost: a.hub.example\r\nContent-Length: \(body.utf8.count)"
                + "\r\n\r\n\(body)")
        #expect(try User(socket.response().body).uid == users["a"]?.uid)
        #expect(try signUpAgain(server, "b") == "EMAIL_EXISTS" && signUpAgain(server, "shared&ns=shared") == "EMAIL_EXISTS")
    }

    private func signUpAgain(_ server: TestServer, _ key: String) throws -> String {
        let answer = try DatabaseTests.ask(
            server, "POST", "\(Self.accounts):signUp?key=\(key)", #"{"email":"ana@example.org","password":"correct horse battery"}"#)
        return answer.contains("EMAIL_EXISTS") ? "EMAIL_EXISTS" : answer
    }

    /// Roles, lists and deletions by the administrators of one database do not reach another's accounts.
    @Test func administrators_reachTheirOwnAccountsOnly() async throws {
        let server = try server()
        let hub = try await DatabaseTests.secret(server)
        let (a, b) = (try signUp(server, "key=a"), try signUp(server, "key=b"))
        let made = try DatabaseTests.ask(server, "POST", "/.settings/secrets.json?ns=a", #"{"name":"a"}"#, by: hub)
        let own = String(try #require(made.firstMatch(of: /"secret":"([^"]+)"/)).1)
        func projects(_ project: String, _ verb: String, _ body: String, by secret: String) throws -> String {
            try DatabaseTests.ask(server, "POST", "/identitytoolkit.googleapis.com/v1/projects/\(project)/accounts\(verb)", body, by: secret)
        }
        let claims = #"{"localId":"\#(a.uid)","customAttributes":"{\"role\":\"staff\"}"}"#
        #expect(try projects("b", ":update", claims, by: own).hasPrefix("401 "))
        #expect(try projects("-", ":update", claims, by: own).hasPrefix("401 "), "the hub's accounts")
        #expect(try projects("b", ":update", claims, by: hub).contains("USER_NOT_FOUND"))
        #expect(try projects("a", ":update", claims, by: own).hasPrefix("200 "))
        #expect(try projects("a", ":lookup", "{\"localId\":[\"\(b.uid)\"]}", by: own).contains(a.uid) == false)
        // The role came after the token: it is refused until it is renewed. The other user's is not touched.
        #expect(try write(server, a, to: "a").hasPrefix("401 "))
        #expect(try write(server, b, to: "b") == "200 1")
    }

    /// An id of the same name in two databases: a change of one does not end the other's connections.
    @Test func sameId_isRevokedInItsDatabaseOnly() async throws {
        let server = try server()
        let hub = try await DatabaseTests.secret(server)
        var sockets: [TestSocket] = []
        for name in ["a", "b"] {
            let path = "/identitytoolkit.googleapis.com/v1/projects/\(name)/accounts"
            let body = #"{"localId":"ana","email":"ana@example.org","password":"correct horse battery"}"#
            #expect(try DatabaseTests.ask(server, "POST", path, body, by: hub).hasPrefix("200 "))
            let user = try User(DatabaseTests.ask(
                server, "POST", "\(Self.accounts):signInWithPassword?key=\(name)",
                #"{"email":"ana@example.org","password":"correct horse battery","returnSecureToken":true}"#))
            let socket = try server.realtime("v=5&ns=\(name)").socket
            try socket.sendText(#"{"t":"d","d":{"r":1,"a":"auth","b":{"cred":"\#(user.token)"}}}"#)
            #expect(try socket.text().contains(#""s":"ok""#))
            sockets.append(socket)
        }
        let path = "/identitytoolkit.googleapis.com/v1/projects/a/accounts:update"
        #expect(try DatabaseTests.ask(server, "POST", path, #"{"localId":"ana","disableUser":true}"#, by: hub).hasPrefix("200 "))
        #expect(try sockets[0].text().contains(#""a":"ac""#))
        try sockets[1].sendText(#"{"t":"d","d":{"r":2,"a":"p","b":{"p":"/who/ana","d":1}}}"#)
        #expect(try sockets[1].text().contains(#""r":2"#))
    }

    /// `.account` applies in every database that has the accounts, and in no other one.
    @Test func deletedAccount_losesItsDataInEachOfItsDatabases() async throws {
        let server = try server()
        let hub = try await DatabaseTests.secret(server)
        let user = try signUp(server, "key=any")
        for name in ["main", "shared"] { #expect(try write(server, user, to: name) == "200 1") }
        #expect(try DatabaseTests.ask(server, "PUT", "/who/\(user.uid).json?ns=a", "1", by: hub) == "200 1")
        let deletion = try DatabaseTests.ask(server, "POST", "\(Self.accounts):delete?key=any", "{\"idToken\":\"\(user.token)\"}")
        #expect(deletion.hasPrefix("200 "), "\(deletion)")
        for name in ["main", "shared"] {
            #expect(try DatabaseTests.ask(server, "GET", "/who.json?ns=\(name)", by: hub) == "200 null", "\(name)")
        }
        #expect(try DatabaseTests.ask(server, "GET", "/who.json?ns=a", by: hub) == "200 {\"\(user.uid)\":1}")
    }

    @Test func accountsOfADatabase_surviveARestart_andGoWithIt() async throws {
        let folder = try TemporaryFolder()
        var server = try server(folder.path)
        let hub = try await DatabaseTests.secret(server)
        try DatabaseTests.create(server, "next", rules: Self.rules.split(separator: "\n").joined(separator: " "), by: hub)
        let user = try signUp(server, "key=next")
        #expect(try write(server, user, to: "next") == "200 1")
        server.stop()
        server = try self.server(folder.path)
        #expect(try write(server, user, to: "next") == "200 1")
        #expect(try DatabaseTests.ask(server, "DELETE", "/.settings/databases/next.json", by: hub) == "200 null\n")
        #expect(!FileManager.default.fileExists(atPath: folder.path + "/accounts-next.sqlite"))
        try DatabaseTests.create(server, "next", rules: Self.rules.split(separator: "\n").joined(separator: " "), by: hub)
        #expect(try write(server, user, to: "next").hasPrefix("401 "))
        _ = try signUp(server, "key=next")
        server.stop()
    }
}
