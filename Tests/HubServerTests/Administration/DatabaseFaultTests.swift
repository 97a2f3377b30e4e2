import Accounts
import Dispatch
import Foundation
import HTTPTypes
import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import TestHub
import Testing
import TestSupport
import Tokens
@testable import HubServer

extension TestServer {
    /// Stores the list of databases, as if the process had been killed with it.
    func note(_ list: String) throws {
        let stored = DispatchSemaphore(value: 0)
        server.storage.settingStore.put(Array(list.utf8), setting: "databases", of: nil) { _ in stored.signal() }
        #expect(stored.wait(timeout: .now() + 20) == .success)
    }
}

/// Databases whose creation, opening or removal goes wrong, or meets requests.
@Suite(.timeLimit(.minutes(30))) struct DatabaseFaultTests {
    private static func accounts() -> AccountSettings {
        var settings = AccountSettings()
        settings.signingAlgorithm = .es256
        return settings
    }

    /// Whatever a request names its database by, a secret is made for that one.
    @Test func secretsFollowTheDatabaseThatIsNamed() async throws {
        let server = try DatabaseTests.server(nil)
        let hub = try await DatabaseTests.secret(server)
        // With one database its secrets are the hub's.
        #expect(try DatabaseTests.ask(server, "GET", "/.settings/secrets.json?ns=main", by: hub).contains("\"test\""))
        try DatabaseTests.create(server, "next", by: hub)
        func ask(_ method: String, _ host: String, _ body: String = "") throws -> String {
            let socket = try TestSocket(port: server.port)
            try socket.send(
                "\(method) /.settings/secrets.json HTTP/1.1\r\nHost: \(host)\r\nAuthorization: Bearer \(hub)\r\n"
                    + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
            return try socket.response().body
        }
        let made = try ask("POST", "next.hub.example", #"{"name":"of next"}"#)
        let own = String(try #require(made.firstMatch(of: /"secret":"([^"]+)"/)).1)
        #expect(try DatabaseTests.ask(server, "PUT", "/a.json?ns=next", "1", by: own) == "200 1")
        #expect(try DatabaseTests.ask(server, "GET", "/.settings/databases.json", by: own).hasPrefix("401 "), "not one of the hub")
        #expect(try ask("GET", "next.hub.example").contains("of next") && !ask("GET", "next.hub.example").contains("\"test\""))
        #expect(try ask("GET", "localhost").contains("\"test\"") && !ask("GET", "localhost").contains("of next"))
        #expect(try !DatabaseTests.ask(server, "GET", "/.settings/secrets.json?ns=main", by: hub).contains("\"test\""))
        let id = String(try #require(made.firstMatch(of: /"id":"([^"]+)"/)).1)
        #expect(try DatabaseTests.ask(server, "DELETE", "/.settings/secrets/\(id).json", by: hub).hasPrefix("404 "))
        #expect(try DatabaseTests.ask(server, "DELETE", "/.settings/secrets/\(id).json?ns=next", by: hub) == "200 null\n")
    }

    /// Rules and secrets without data must not become those of a new database.
    @Test func settingsWithoutData_areHeld_untilTheyAreRemoved() async throws {
        let folder = try TemporaryFolder()
        var server = try DatabaseTests.server(folder.path) { $0.databases.append(DatabaseSettings("left")) }
        let hub = try await DatabaseTests.secret(server)
        #expect(try DatabaseTests.ask(server, "POST", "/.settings/secrets.json?ns=left", #"{"name":"x"}"#, by: hub).hasPrefix("200 "))
        server.stop()
        server = try DatabaseTests.server(folder.path)
        #expect(try DatabaseTests.ask(server, "PUT", "/.settings/databases/left.json", "{}", by: hub).hasPrefix("409 "))
        #expect(try DatabaseTests.ask(server, "DELETE", "/.settings/databases/left.json", by: hub) == "200 null\n")
        #expect(try DatabaseTests.ask(server, "DELETE", "/.settings/databases/left.json", by: hub).hasPrefix("404 "))
        #expect(try DatabaseTests.ask(server, "PUT", "/.settings/databases/left.json", "{}", by: hub).hasPrefix("200 "))
        server.stop()
    }

    /// Nothing stays of a creation that fails.
    @Test func databaseThatCannotBeOpened_isTakenBack() async throws {
        let folder = try TemporaryFolder()
        var server = try DatabaseTests.server(folder.path) { $0.accounts = Self.accounts() }
        let hub = try await DatabaseTests.secret(server)
        // A link into nowhere: the file is not there, and cannot be created.
        try FileManager.default.createSymbolicLink(
            atPath: folder.at("accounts-next.sqlite"), withDestinationPath: "/nonexistent/accounts.sqlite")
        #expect(try DatabaseTests.ask(server, "PUT", "/.settings/databases/next.json", "{}", by: hub).hasPrefix("503 "))
        #expect(try !DatabaseTests.ask(server, "GET", "/.settings/databases.json", by: hub).contains("next"))
        server.stop()
        server = try DatabaseTests.server(folder.path) { $0.accounts = Self.accounts() }
        #expect(try DatabaseTests.ask(server, "GET", "/a.json?ns=next").hasPrefix("404 "))
        try DatabaseTests.create(server, "next", by: hub)
        server.stop()
    }

    /// The damaged file of one created database does not keep the others closed.
    @Test func damagedAccountsOfACreatedDatabase_closeThatOnly() async throws {
        let folder = try TemporaryFolder()
        func start() throws -> TestServer { try DatabaseTests.server(folder.path) { $0.accounts = Self.accounts() } }
        var server = try start()
        let hub = try await DatabaseTests.secret(server)
        try DatabaseTests.create(server, "next", by: hub)
        try DatabaseTests.create(server, "other", by: hub)
        server.stop()
        for suffix in ["-wal", "-shm"] { try? folder.remove("accounts-next.sqlite" + suffix) }
        _ = try folder.file("accounts-next.sqlite", String(repeating: "not a database ", count: 1_000))
        server = try start()
        #expect(try DatabaseTests.ask(server, "GET", "/a.json?ns=other") == "200 null")
        #expect(try DatabaseTests.ask(server, "GET", "/a.json?ns=next").hasPrefix("503 "))
        let signUp = "/identitytoolkit.googleapis.com/v1/accounts:signUp"
        #expect(try DatabaseTests.ask(server, "POST", "\(signUp)?key=next", "{}").hasPrefix("503 "), "not the hub's accounts")
        #expect(try DatabaseTests.ask(server, "POST", "\(signUp)?key=any", "{}").hasPrefix("200 "))
        #expect(try DatabaseTests.ask(server, "GET", "/.settings/databases.json", by: hub).contains(#""open":false"#))
        #expect(try DatabaseTests.ask(server, "DELETE", "/.settings/databases/next.json", by: hub) == "200 null\n")
        try DatabaseTests.create(server, "next", by: hub)
        server.stop()
    }

    /// One that is being created is not opened by a request before it is stored, also on a development hub.
    @Test func changingDatabase_isNotOpenedBeforeItIsStored() throws {
        var settings = ServerSettings()
        settings.isDev = true
        let catalog = try DatabaseCatalog(settings, MemoryStorage())
        #expect(catalog.mayOpen("next"))
        #expect(catalog.begin("next") && !catalog.begin("other"))
        #expect(!catalog.mayOpen("next") && catalog.mayOpen("other"))
        catalog.add(DatabaseCatalog.Created(name: "next", isShared: true, madeAt: 0)) { _ in }
        #expect(catalog.mayOpen("next"))
        catalog.end()
        #expect(catalog.begin("next") && !catalog.mayOpen("next"), "nor while it is removed")
    }

    /// The same name by two requests at once is created once.
    @Test func twoRequestsForOneName_createOne() async throws {
        let server = try DatabaseTests.server(nil)
        let answers = Mutex<[String]>([])
        let all = DispatchSemaphore(value: 0)
        for _ in 0..<16 {
            DispatchQueue.global().async { [hub = server.server] in
                hub.createDatabase("next", isShared: true, rules: nil) { fault in
                    answers.withLock { $0.append(fault.map { "\($0.status.code)" } ?? "created") }
                    all.signal()
                }
            }
        }
        for _ in 0..<16 { all.wait() }
        #expect(answers.withLock { $0.count { $0 == "created" } } == 1)
        #expect(server.server.databaseNames == ["main", "next"])
    }

    /// Holds each check of a token until the test lets it pass.
    private final class Verifier: TokenVerifier {
        let begun = DispatchSemaphore(value: 0)
        let gate = DispatchSemaphore(value: 0)

        func remembered(_ token: String) -> Identity? { nil }

        func verify(_ token: String, _ done: @escaping @Sendable (Result<Identity, Failure>) -> Void) {
            begun.signal()
            gate.wait()
            done(.success(.anonymous))
        }
    }

    /// A request that was let in before the removal reads nothing of the database behind it.
    @Test(arguments: ["", "Accept: text/event-stream\r\n"])
    func requestBehindATokenCheck_isRefusedAfterTheRemoval(field: String) async throws {
        let verifier = Verifier()
        let server = try DatabaseTests.server(nil) { $0.tokens = verifier }
        let hub = try await DatabaseTests.secret(server)
        try DatabaseTests.create(server, "gone", by: hub)
        #expect(try DatabaseTests.ask(server, "PUT", "/a.json?ns=gone", "1") == "200 1")
        let socket = try TestSocket(port: server.port)
        try socket.send("GET /a.json?ns=gone&auth=\(Self.token) HTTP/1.1\r\nHost: localhost\r\n\(field)\r\n")
        #expect(verifier.begun.wait(timeout: .now() + 20) == .success)
        #expect(try DatabaseTests.ask(server, "DELETE", "/.settings/databases/gone.json", by: hub) == "200 null\n")
        verifier.gate.signal()
        #expect(try socket.response().status == 404)
        // The connection continues.
        try socket.send("GET /a.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(try socket.response().status == 200)
    }

    /// `{"alg":"ES256"}.{"sub":"ana"}.x`
    private static let token = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhbmEifQ.eA"

    /// A removed database has no accounts, not those of the hub.
    @Test func removedDatabase_hasNoProject() async throws {
        let server = try DatabaseTests.server(nil) { $0.accounts = Self.accounts() }
        let hub = try await DatabaseTests.secret(server)
        try DatabaseTests.create(server, "gone", by: hub)
        let authentication = server.server.authentication
        #expect(authentication.project(of: "gone")?.database == "gone" && authentication.project(of: "main") === authentication.hubProject)
        #expect(try DatabaseTests.ask(server, "DELETE", "/.settings/databases/gone.json", by: hub) == "200 null\n")
        #expect(authentication.project(of: "gone") == nil)
    }

    /// A stream whose observer waits for the database has no head yet: it gets a response, not a chunk.
    @Test func streamThatHasNotBegun_isAnsweredOnRemoval() async throws {
        let server = try DatabaseTests.server(nil)
        let hub = try await DatabaseTests.secret(server)
        try DatabaseTests.create(server, "gone", by: hub)
        #expect(try DatabaseTests.ask(server, "PUT", "/a.json?ns=gone", "1") == "200 1")
        let database = try #require(server.server.hub.database("gone"))
        let (held, gate) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        database.queue.async {
            held.signal()
            gate.wait()
        }
        held.wait()
        let socket = try TestSocket(port: server.port)
        try socket.send("GET /a.json?ns=gone HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        #expect(await becomes { server.server.sessions.streams.load(ordering: .relaxed) == 1 })
        #expect(try DatabaseTests.ask(server, "DELETE", "/.settings/databases/gone.json", by: hub) == "200 null\n")
        let answer = try socket.response()
        #expect(answer.status == 404 && answer.body.contains("removed"), "\(answer)")
        gate.signal()
        // What the database still sends is not written between other responses.
        try socket.send("GET /.health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(try socket.response().status == 200)
    }

    /// The journal of a database that is being removed refuses writes. Load balancers must not take the hub for broken.
    @Test func removal_leavesTheHubReady() async throws {
        let folder = try TemporaryFolder()
        let server = try DatabaseTests.server(folder.path)
        let hub = try await DatabaseTests.secret(server)
        try DatabaseTests.create(server, "gone", by: hub)
        #expect(try DatabaseTests.ask(server, "PUT", "/a.json?ns=gone", "1") == "200 1")
        #expect(server.server.catalog.begin("gone"))
        let removed = DispatchSemaphore(value: 0)
        server.server.storage.remove("gone", noting: server.server.catalog.setting(without: "gone")) { _ in removed.signal() }
        #expect(removed.wait(timeout: .now() + 20) == .success)
        #expect(try DatabaseTests.ask(server, "PUT", "/a.json?ns=gone", "2").hasPrefix("503 "))
        #expect(try DatabaseTests.ask(server, "GET", "/.health/ready").hasPrefix("200 "))
        server.server.catalog.end()
        #expect(try DatabaseTests.ask(server, "GET", "/.health/ready").hasPrefix("503 "), "without a removal it is a fault")
        server.stop()
    }
}
