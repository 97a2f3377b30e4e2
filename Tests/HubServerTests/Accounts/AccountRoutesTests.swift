import Accounts
import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing
import Tokens

/// The account routes on the hub's single port, and the guarantees of the transport (accounts contract §1, §2).
@Suite(.timeLimit(.minutes(30))) struct AccountRoutesTests {
    private static let lookup = "/identitytoolkit.googleapis.com/v1/accounts:lookup?key=any"

    private func server(_ configure: (inout ServerSettings) -> Void = { _ in }) throws -> TestServer {
        try TestServer {
            var settings = AccountSettings()
            // A key of this algorithm is generated quickly.
            settings.signingAlgorithm = .es256
            $0.accounts = settings
            $0.isDev = false
            configure(&$0)
        }
    }

    private func ask(
        _ server: TestServer, _ method: String, _ target: String, _ body: String = "", _ fields: [String] = []
    ) throws -> TestSocket.Response {
        let socket = try TestSocket(port: server.port)
        let lines = ["\(method) \(target) HTTP/1.1", "Host: localhost"] + fields
            + (body.isEmpty ? [] : ["Content-Length: \(body.utf8.count)"])
        try socket.send(lines.joined(separator: "\r\n") + "\r\n\r\n" + body)
        return try socket.response()
    }

    @Test func everyRoot_isAnsweredByTheAccounts_inTheirErrorShape() throws {
        let server = try server()
        for path in [
            "/identitytoolkit.googleapis.com/v1/none", "/www.googleapis.com/identitytoolkit/v3/relyingparty/none",
            "/securetoken.googleapis.com/none",
            "/emulator/v1/none",
        ] {
            let answer = try ask(server, "POST", path + "?key=any", "{}")
            let error = try #require(try RawObject(answer.body)["error"]).object()
            #expect(answer.status == 404 && error["code"]?.text == "404" && error["status"]?.string == "NOT_FOUND", "\(path)")
        }
    }

    @Test func withoutAccounts_nothingIsThere() throws {
        let server = try TestServer()
        #expect(try ask(server, "POST", Self.lookup, "{}").body.contains("Nothing is served"))
        #expect(try !TestSocket(port: server.port).get("/").body.contains("authEmulator"))
    }

    /// Test suites request coverage without a credential: the answer says that it is not recorded, not that a permission is missing.
    @Test func coverageOfRules_isSaidNotToBeRecorded_onADevelopmentHub() throws {
        let server = try server { $0.isDev = true }
        for path in ["/.inspect/coverage", "/.inspect/coverage?ns=test", "/.inspect/coverage.json"] {
            let answer = try TestSocket(port: server.port).get(path)
            #expect(answer.status == 501 && answer.body.contains("vigla rules test FILE CASES --coverage"), "\(path) \(answer.body)")
        }
        #expect(try TestSocket(port: server.port).get("/.inspect/databases.json").status == 401)
        let production = try self.server()
        #expect(try TestSocket(port: production.port).get("/.inspect/coverage").status == 401)
    }

    @Test func root_tellsToolsOfADevelopmentHubThatAccountsAreReady_andLeadsBrowsersToTheConsole() throws {
        let closed = try self.server { $0.isDev = false }
        #expect(try TestSocket(port: closed.port).get("/").body.hasPrefix(#"{"hub":"vigla","#), "a closed hub is no emulator")
        let server = try server { $0.isDev = true }
        let tool = try TestSocket(port: server.port).get("/")
        #expect(tool.status == 200 && tool.body == "{\"authEmulator\":{\"ready\":true}}\n" && tool.head.contains("application/json"))
        let browser = try ask(server, "GET", "/", "", ["Accept: text/html,application/xhtml+xml,*/*;q=0.8"])
        #expect(browser.status == 302 && browser.field("Location") == "/.console/")
    }

    @Test func dataUnderTheNameEmulator_staysData() throws {
        let server = try server { $0.rules = .allowAll }
        #expect(try ask(server, "PUT", "/emulator/v1.json", "1").body == "1")
        #expect(try TestSocket(port: server.port).get("/emulator.json").body == #"{"v1":1}"#)
    }

    @Test func check6_preflightsAreReflected_andErrorsCarryCORS() throws {
        let server = try server { $0.allowedOrigins = ["*", "https://app.example"] }
        let asked = [
            "Origin: https://app.example", "Access-Control-Request-Headers: content-type,x-client-version",
            "Access-Control-Request-Private-Network: true",
        ]
        for path in [Self.lookup, "/securetoken.googleapis.com/v1/token", "/.oauth/token", "/.well-known/jwks.json"] {
            let answer = try ask(server, "OPTIONS", path, "", asked + ["Access-Control-Request-Method: POST"])
            #expect(answer.status == 204 && answer.body.isEmpty)
            #expect(answer.field("Access-Control-Allow-Origin") == "https://app.example" && answer.field("Vary") == "Origin")
            #expect(answer.field("Access-Control-Allow-Headers") == "content-type,x-client-version")
            #expect(answer.field("Access-Control-Allow-Methods") == "GET, HEAD, PUT, PATCH, POST, DELETE")
            #expect(answer.field("Access-Control-Allow-Private-Network") == "true")
            #expect(answer.field("Access-Control-Max-Age") == "600" && answer.field("Access-Control-Allow-Credentials") == nil)
        }
        let refused = try ask(server, "POST", "/identitytoolkit.googleapis.com/v1/none?key=any", "{}", ["Origin: https://app.example"])
        #expect(refused.status == 404 && refused.field("Access-Control-Allow-Origin") == "https://app.example")
        #expect(try ask(server, "POST", Self.lookup, "{}").field("Access-Control-Allow-Origin") == nil, "nobody asked")
    }

    /// Otherwise any web page could try passwords at a hub that only its visitors can reach.
    @Test(arguments: [
        (nil, false), (["*"], false), (["https://app.example"], true), (["*", "HTTPS://app.example"], true),
    ] as [([String]?, Bool)])
    func privateNetworks_areOpenToNamedPagesOnly(_ origins: [String]?, _ isOpen: Bool) throws {
        let server = try server { $0.allowedOrigins = origins }
        let answer = try ask(
            server, "OPTIONS", Self.lookup, "", ["Origin: https://app.example", "Access-Control-Request-Private-Network: true"])
        #expect(answer.status == 204 && answer.field("Access-Control-Allow-Private-Network") == (isOpen ? "true" : nil))
        let dev = try self.server { $0.isDev = true }
        let local = try ask(
            dev, "OPTIONS", Self.lookup, "", ["Origin: http://localhost:3000", "Access-Control-Request-Private-Network: true"])
        #expect(local.field("Access-Control-Allow-Private-Network") == "true")
    }

    @Test func withAListOfOrigins_othersAreRefused_butNotThePagesOfMailedLinks() throws {
        let server = try server { $0.allowedOrigins = ["https://app.example"] }
        #expect(try ask(server, "OPTIONS", Self.lookup, "", ["Origin: https://app.example"]).status == 204)
        for method in ["OPTIONS", "POST"] {
            let answer = try ask(server, method, Self.lookup, method == "POST" ? "{}" : "", ["Origin: https://other.example"])
            #expect(answer.status == 403 && answer.field("Access-Control-Allow-Origin") == nil)
        }
        // Without a referrer, the origin of a form is null.
        for origin in ["null", "https://hub.example"] {
            #expect(try ask(server, "POST", "/.account/action", "oobCode=x", ["Origin: \(origin)"]).status != 403)
            #expect(try ask(server, "GET", "/.well-known/jwks.json", "", ["Origin: \(origin)"]).status != 403)
        }
    }

    @Test func bodies_areLimited_beforeTheyAreRead_andImportsAreForAdministrators() throws {
        let server = try server {
            $0.isDev = true
            $0.accounts?.bodyBytes = 1000
            $0.accounts?.administratorBodyBytes = 5000
        }
        let batches = [
            "/identitytoolkit.googleapis.com/v1/projects/default/accounts:batchCreate",
            "/www.googleapis.com/identitytoolkit/v3/relyingparty/uploadAccount",
        ]
        func status(_ target: String, _ length: Int, _ fields: [String] = []) throws -> Int {
            let socket = try TestSocket(port: server.port)
            let announced = (
                ["POST \(target) HTTP/1.1", "Host: localhost", "Content-Length: \(length)", "Expect: 100-continue"] + fields
            ).joined(separator: "\r\n")
            // The body of a too large request is not read.
            try socket.send(announced + "\r\n\r\n")
            return try socket.head().status
        }
        let owner = ["Authorization: Bearer owner"]
        #expect(try [status(Self.lookup, 1000), status(Self.lookup, 1001), status(Self.lookup, 1001, owner)] == [100, 413, 413])
        for batch in batches {
            #expect(try [status(batch, 5000, owner), status(batch, 5001, owner)] == [100, 413])
            #expect(try [status(batch, 1001), status(batch, 1001, ["Authorization: Bearer other"])] == [413, 413])
        }
    }

    @Test func longHeaderLines_areTaken() throws {
        let server = try server()
        let heartbeat = String(repeating: "h", count: 16 << 10)
        #expect(try ask(
            server, "POST", "/identitytoolkit.googleapis.com/v1/none?key=any", "{}",
            ["X-Firebase-Client: \(heartbeat)", "X-Firebase-AppCheck: \(heartbeat.prefix(8 << 10))"]).status == 404)
    }

    @Test func pipelinedRequests_areAnsweredInOrder() throws {
        let server = try server()
        let socket = try TestSocket(port: server.port)
        let one = "POST /identitytoolkit.googleapis.com/v1/none?key=a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
        try socket.send(one + "GET /.health HTTP/1.1\r\nHost: x\r\n\r\n" + one)
        #expect(try [socket.response().status, socket.response().status, socket.response().status] == [404, 200, 404])
    }

    @Test func check13_overload_isAnsweredWithoutJSON() throws {
        let full = try server { $0.limits.accountRequests = 0 }
        for path in [Self.lookup, "/securetoken.googleapis.com/v1/token?key=any"] {
            let answer = try ask(full, "POST", path, "{}", ["Origin: https://app.example"])
            #expect(answer.status == 503 && answer.field("Content-Type") == "text/plain" && !answer.body.contains("{"))
            #expect(answer.field("Access-Control-Allow-Origin") == "https://app.example")
        }
        #expect(try ask(server { $0.limits.accountRequestsOfNetwork = 0 }, "POST", Self.lookup, "{}").status == 503)
        #expect(try ask(
            server { $0.limits.accountRequests = 1; $0.limits.accountRequestsOfNetwork = 1 }, "POST",
            "/identitytoolkit.googleapis.com/v1/none?key=a", "{}").status == 404)
        #expect(
            try ask(server { $0.limits.accountRequests = 1 }, "POST", "/identitytoolkit.googleapis.com/v1/none?key=a", "{}").status == 404)
    }
}
