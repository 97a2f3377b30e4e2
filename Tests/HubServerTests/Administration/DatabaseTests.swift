import Foundation
import HubEngine
import JSONTree
import SecurityRules
import TestHub
import Testing
import TestSupport
@testable import HubServer

/// Databases that administrators create and remove while the hub runs.
@Suite(.timeLimit(.minutes(30))) struct DatabaseTests {
    static let open = #"{"rules":{".read":true,".write":true}}"#

    /// One request on a connection of its own, as `200 body`.
    static func ask(
        _ server: TestServer, _ method: String, _ target: String, _ body: String = "", by credential: String? = nil
    ) throws -> String {
        let socket = try TestSocket(port: server.port)
        var lines = ["\(method) \(target) HTTP/1.1", "Host: localhost:9000", "Content-Length: \(body.utf8.count)"]
        if let credential { lines.append("Authorization: Bearer \(credential)") }
        try socket.send(lines.joined(separator: "\r\n") + "\r\n\r\n" + body)
        let answer = try socket.response()
        return "\(answer.status) \(answer.body)"
    }

    static func create(_ server: TestServer, _ name: String, _ accounts: String = "own", rules: String = open, by secret: String) throws {
        let text = rules.replacing("\"", with: "\\\"")
        let answer = try ask(
            server, "PUT", "/.settings/databases/\(name).json", "{\"accounts\":\"\(accounts)\",\"rules\":\"\(text)\"}", by: secret)
        #expect(answer == "200 {\"name\":\"\(name)\"}\n")
    }

    /// A hub with the default database `main`, and its administrator's secret.
    static func server(_ folder: String?, _ configure: (inout ServerSettings) -> Void = { _ in }) throws -> TestServer {
        try TestServer {
            $0.dataFolder = folder
            $0.isDev = false
            $0.namespace = "main"
            configure(&$0)
        }
    }

    static func secret(_ server: TestServer) async throws -> String {
        try await withCheckedContinuation { continuation in
            server.server.secrets.add("test", madeAt: 0) { continuation.resume(returning: $0) }
        }.get().secret
    }

    @Test func createdDatabase_isApart_andExistsAfterARestart() async throws {
        let folder = try TemporaryFolder()
        var server = try Self.server(folder.path)
        let secret = try await Self.secret(server)
        #expect(try Self.ask(server, "GET", "/a.json?ns=next").hasPrefix("404 "))
        try Self.create(server, "next", by: secret)
        #expect(try Self.ask(server, "PUT", "/a.json?ns=next", "1") == "200 1")
        #expect(try Self.ask(server, "GET", "/a.json?ns=main") == "200 null")
        let list = try Self.ask(server, "GET", "/.settings/databases.json", by: secret)
        #expect(list.hasPrefix(#"200 {"databases":[{"name":"main","default":true,"configured":true},{"name":"next","madeAt":"#), "\(list)")
        server.stop()
        server = try Self.server(folder.path)
        #expect(try Self.ask(server, "GET", "/a.json?ns=next") == "200 1")
        #expect(try Self.ask(server, "PUT", "/a.json?ns=next", "2") == "200 2")
        server.stop()
    }

    @Test func removal_takesDataRulesAndSecrets_alsoAfterARestart() async throws {
        let folder = try TemporaryFolder()
        var server = try Self.server(folder.path)
        let secret = try await Self.secret(server)
        try Self.create(server, "gone", by: secret)
        #expect(try Self.ask(server, "PUT", "/a.json?ns=gone", "1") == "200 1")
        let made = try Self.ask(server, "POST", "/.settings/secrets.json?ns=gone", #"{"name":"x"}"#, by: secret)
        let own = try #require(made.firstMatch(of: /"secret":"([^"]+)"/)).1
        #expect(try Self.ask(server, "DELETE", "/.settings/databases/gone.json", by: secret) == "200 null\n")
        #expect(try Self.ask(server, "GET", "/a.json?ns=gone").hasPrefix("404 "))
        #expect(try Self.ask(server, "DELETE", "/.settings/databases/gone.json", by: secret).hasPrefix("404 "))
        // The next one of the name begins from nothing.
        try Self.create(server, "gone", rules: #"{"rules":{".read":true}}"#, by: secret)
        #expect(try Self.ask(server, "GET", "/a.json?ns=gone") == "200 null")
        #expect(try Self.ask(server, "PUT", "/a.json?ns=gone", "1").hasPrefix("401 "))
        #expect(try Self.ask(server, "GET", "/.settings/rules.json?ns=gone", by: String(own)).hasPrefix("401 "))
        #expect(try Self.ask(server, "GET", "/.settings/formerRules.json?ns=gone", by: secret) == #"200 {"former":[]}"# + "\n")
        #expect(try Self.ask(server, "DELETE", "/.settings/databases/gone.json", by: secret) == "200 null\n")
        server.stop()
        server = try Self.server(folder.path)
        #expect(try Self.ask(server, "GET", "/a.json?ns=gone").hasPrefix("404 "))
        server.stop()
    }

    /// Each protocol gets its notice, and the clients of other databases notice nothing.
    @Test func clientsOfARemovedDatabase_areNotifiedAndClosed() async throws {
        let server = try Self.server(nil)
        let secret = try await Self.secret(server)
        try Self.create(server, "gone", by: secret)
        try Self.create(server, "stays", by: secret)
        let realtime = try server.realtime("v=5&ns=gone").socket
        let other = try server.realtime("v=5&ns=stays").socket
        let observe = try TestSocket(port: server.port)
        try observe.upgrade("/.observe?ns=gone")
        try observe.sendText(#"{"id":1,"op":"observe","path":"/","events":["value"]}"#)
        #expect(try observe.text().contains(#""id":1"#))
        let stream = try TestSocket(port: server.port)
        try stream.send("GET /a.json?ns=gone HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        _ = try stream.head()
        #expect(try stream.chunk()?.hasPrefix("event: put") == true)
        weak let database = server.server.hub.database("gone")
        #expect(database != nil)
        #expect(try Self.ask(server, "DELETE", "/.settings/databases/gone.json", by: secret) == "200 null\n")
        #expect(try realtime.text() == #"{"t":"c","d":{"t":"s","d":"The database was removed."}}"#)
        #expect(try realtime.closeCode() == 1008)
        #expect(try observe.closeCode() == 1008)
        #expect(try stream.chunk()?.hasPrefix("event: cancel") == true)
        try other.sendText(#"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}}}"#)
        #expect(try other.text().contains(#""s":"ok""#))
        #expect(await becomes { database == nil }, "nothing keeps it")
    }

    @Test func secretOfADatabase_administersThatOnly() async throws {
        let server = try Self.server(nil)
        let hub = try await Self.secret(server)
        try Self.create(server, "a", rules: #"{"rules":{}}"#, by: hub)
        try Self.create(server, "b", rules: #"{"rules":{}}"#, by: hub)
        let made = try Self.ask(server, "POST", "/.settings/secrets.json?ns=a", #"{"name":"of a"}"#, by: hub)
        let own = String(try #require(made.firstMatch(of: /"secret":"([^"]+)"/)).1)
        #expect(try Self.ask(server, "PUT", "/x.json?ns=a", "1", by: own) == "200 1")
        #expect(try Self.ask(server, "PUT", "/x.json?ns=b", "1", by: own).hasPrefix("401 "))
        #expect(try Self.ask(server, "PUT", "/x.json", "1", by: own).hasPrefix("401 "))
        #expect(try Self.ask(server, "PUT", "/.settings/rules.json?ns=a", Self.open, by: own).hasPrefix("200 "))
        #expect(try Self.ask(server, "PUT", "/.settings/rules.json?ns=b", Self.open, by: own).hasPrefix("401 "))
        #expect(try Self.ask(server, "GET", "/.inspect/databases.json?ns=a", by: own) == #"200 [{"name":"a"}]"# + "\n")
        for (method, target) in [
            ("GET", "/.settings/databases.json"), ("PUT", "/.settings/databases/c.json"), ("DELETE", "/.settings/databases/b.json"),
            ("GET", "/.inspect/log.json"), ("GET", "/.metrics?by=user"),
        ] {
            let mark = target.contains("?") ? "&" : "?"
            #expect(try Self.ask(server, method, "\(target)\(mark)ns=a", "{}", by: own).hasPrefix("401 "), "\(target)")
        }
        // It sees and makes secrets of its database, and none of the hub.
        let list = try Self.ask(server, "GET", "/.settings/secrets.json?ns=a", by: own)
        #expect(list.contains("of a") && !list.contains("\"test\""))
        let second = try Self.ask(server, "POST", "/.settings/secrets.json?ns=a", #"{"name":"second"}"#, by: own)
        let other = String(try #require(second.firstMatch(of: /"secret":"([^"]+)"/)).1)
        #expect(try Self.ask(server, "GET", "/x.json", by: other).hasPrefix("401 "))
        #expect(try Self.ask(server, "GET", "/.settings/secrets.json", by: hub).contains("\"test\""))
    }

    @Test func whatCannotBeCreatedOrRemoved_isRefused() async throws {
        let folder = try TemporaryFolder()
        let server = try Self.server(folder.path)
        let secret = try await Self.secret(server)
        func ask(_ method: String, _ name: String, _ body: String = "") throws -> String {
            try Self.ask(server, method, "/.settings/databases/\(name).json", body, by: secret)
        }
        #expect(try ask("PUT", "main", "{}").hasPrefix("409 "))
        #expect(try ask("DELETE", "main").hasPrefix("409 "))
        #expect(try ask("PUT", "a%20b", "{}").hasPrefix("400 "))
        #expect(try ask("PUT", "x", "[]").hasPrefix("400 "))
        #expect(try ask("PUT", "x", #"{"accounts":"others"}"#).hasPrefix("400 "))
        #expect(try ask("PUT", "x", #"{"rules":"{\"rules\":{\".reed\":true}}"}"#).contains(".reed"))
        #expect(try ask("PUT", "x", "{}").hasPrefix("200 "))
        #expect(try ask("PUT", "x", "{}").hasPrefix("409 "))
        #expect(try Self.ask(server, "PUT", "/.settings/databases/y.json", "{}").hasPrefix("401 "))
        #expect(try Self.ask(server, "GET", "/a.json?ns=x").hasPrefix("401 "))
        server.stop()
    }

    /// A database that the configuration does not name any more stays in the folder until it is removed.
    @Test func databaseLeftInTheFolder_isNotMistakenForANewOne() async throws {
        let folder = try TemporaryFolder()
        var server = try Self.server(folder.path) { $0.databases.append(DatabaseSettings("left", rules: .allowAll)) }
        let secret = try await Self.secret(server)
        #expect(try Self.ask(server, "PUT", "/a.json?ns=left", "1") == "200 1")
        #expect(try Self.ask(server, "DELETE", "/.settings/databases/left.json", by: secret).hasPrefix("409 "))
        server.stop()
        server = try Self.server(folder.path)
        #expect(try Self.ask(server, "PUT", "/.settings/databases/left.json", "{}", by: secret).hasPrefix("409 "))
        #expect(try Self.ask(server, "DELETE", "/.settings/databases/left.json", by: secret) == "200 null\n")
        #expect(try Self.ask(server, "PUT", "/.settings/databases/left.json", "{}", by: secret).hasPrefix("200 "))
        #expect(try Self.ask(server, "GET", "/a.json?ns=left", by: secret) == "200 null")
        server.stop()
    }
}
