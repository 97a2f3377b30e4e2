import Glibc
import HubServer
import TestHub
import Testing
import WireProtocols

/// Plain HTTP: routes, the console's files, and invalid requests.
@Suite(.timeLimit(.minutes(30))) struct HTTPTests {
    @Test func health_isOk_andConnectionIsKept() throws {
        let server = try TestServer()
        let socket = try TestSocket(port: server.port)
        for _ in 0..<3 {
            let answer = try socket.get("/.health")
            #expect(answer.status == 200 && answer.body == "{\"status\":\"ok\"}\n")
        }
    }

    @Test func pipelinedRequests_areAnsweredInOrder() throws {
        let server = try TestServer()
        let socket = try TestSocket(port: server.port)
        try socket.send("GET /.health HTTP/1.1\r\nHost: x\r\n\r\nGET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(try socket.response().status == 200)
        #expect(try socket.response().status == 404)
    }

    @Test func root_leadsBrowsersToTheConsole_andSaysToProgramsWhatThisIs() throws {
        for isDev in [true, false] {
            let server = try TestServer { $0.isDev = isDev }
            let socket = try TestSocket(port: server.port)
            try socket.send("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html,*/*;q=0.8\r\n\r\n")
            let page = try socket.response()
            #expect(page.status == 302 && page.head.contains("Location: /.console/\r\n"))
            let answer = try socket.get("/")
            #expect(answer.status == 200 && answer.head.contains("application/json"))
            #expect(answer.body == #"{"hub":"vigla","console":"/.console/","data":"/<path>.json","health":"/.health"}"# + "\n")
        }
    }

    @Test func malformedRequest_isRefused_andOthersGoOn() throws {
        let server = try TestServer()
        let good = try TestSocket(port: server.port)
        for bad in [
            "GARBAGE\r\n\r\n", "GET / HTTP/1.1\nHost: x\n\n",
            "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            let socket = try TestSocket(port: server.port)
            try socket.send(bad)
            #expect(try socket.response().status == 400)
        }
        #expect(try good.get("/.health").status == 200)
    }

    @Test func headers_overTheLimit_are431() throws {
        let server = try TestServer { $0.limits.http.fieldBytes = 1000 }
        let within = try TestSocket(port: server.port)
        try within.send("GET /.health HTTP/1.1\r\nHost: x\r\nA: \(String(repeating: "a", count: 900))\r\n\r\n")
        #expect(try within.response().status == 200)
        let over = try TestSocket(port: server.port)
        try over.send("GET /.health HTTP/1.1\r\nHost: x\r\nA: \(String(repeating: "a", count: 1100))\r\n\r\n")
        #expect(try over.response().status == 431)
    }

    @Test func slowRequest_isEnded() throws {
        let server = try TestServer { $0.limits.requestSeconds = 1 }
        let socket = try TestSocket(port: server.port)
        try socket.send("GET /.health HT")
        #expect(throws: TestSocket.Closed.self) { _ = try socket.response() }
    }

    @Test func plainRequestToASocketPath_asksForUpgrade() throws {
        let server = try TestServer()
        #expect(try TestSocket(port: server.port).get("/.ws?ns=test").status == 426)
    }

    @Test func unknownNamespace_is404_exceptUnderDev() throws {
        let server = try TestServer {
            $0.isDev = false
            $0.namespace = "mine"
        }
        let upgrade =
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        func status(_ target: String, host: String = "localhost") throws -> Int {
            let socket = try TestSocket(port: server.port)
            try socket.send("GET \(target) HTTP/1.1\r\nHost: \(host)\r\n" + upgrade)
            return try socket.response().status
        }
        #expect(try status("/.ws?v=5&ns=other") == 404)
        #expect(try status("/.ws?v=5&ns=mine") == 101)
        #expect(try status("/.ws?v=5") == 101, "the default")
        #expect(try status("/.ws?v=5", host: "mine.hub.example") == 101, "the first host label")
        #expect(try status("/.ws?v=5", host: "other.hub.example:9000") == 404)
        #expect(try status("/.ws?v=5", host: "127.0.0.1:9000") == 101, "an address has no labels")
    }

    /// Files are sent in gzip to clients that accept it, in their current version.
    @Test func consoleFiles_areCompressed_forThoseWhoTakeIt() throws {
        var template = Array("/tmp/vigla-console-XXXXXX\0".utf8CString)
        let folder = String(cString: try #require(mkdtemp(&template)))
        defer {
            unlink(folder + "/app.js")
            rmdir(folder)
        }
        func write(_ text: String) throws {
            let file = try #require(fopen(folder + "/app.js", "w"))
            fputs(text, file)
            fclose(file)
        }
        try write(String(repeating: "let a = 1;\n", count: 1_000))
        let server = try TestServer { $0.webFolder = folder }
        let socket = try TestSocket(port: server.port)
        func head(_ field: String) throws -> String {
            try socket.send("GET /.console/app.js HTTP/1.1\r\nHost: localhost\r\n\(field)\r\n")
            return try socket.response().head
        }
        let compressed = try head("Accept-Encoding: gzip, br\r\n")
        #expect(compressed.contains("Content-Encoding: gzip") && compressed.contains("Vary: Accept-Encoding"))
        #expect(!compressed.contains("Content-Length: 11000"))
        #expect(try head("Accept-Encoding: gzip\r\n") == compressed)
        for field in ["", "Accept-Encoding: br\r\n", "Accept-Encoding: gzip;q=0\r\n"] {
            let plain = try head(field)
            #expect(!plain.contains("Content-Encoding") && plain.contains("Content-Length: 11000") && plain.contains("Vary"))
        }
        try write("let a = 2;")
        let changed = try head("Accept-Encoding: gzip\r\n")
        #expect(!changed.contains("Content-Encoding") && changed.contains("Content-Length: 10"), "too short to be compressed")
    }

    @Test func console_servesItsFolderAndNothingElse() throws {
        var template = Array("/tmp/vigla-console-XXXXXX\0".utf8CString)
        let folder = String(cString: try #require(mkdtemp(&template)))
        defer {
            for name in ["index.html", "app.js", "vigla.js", "llms.txt", ".secret"] { unlink(folder + "/" + name) }
            rmdir(folder)
        }
        for (name, text) in [("index.html", "<p>"), ("app.js", "1"), ("vigla.js", "2"), ("llms.txt", "3"), (".secret", "no")] {
            let file = try #require(fopen(folder + "/" + name, "w"))
            fputs(text, file)
            fclose(file)
        }
        let server = try TestServer { $0.webFolder = folder }
        let socket = try TestSocket(port: server.port)
        let page = try socket.get("/.console/")
        #expect(page.status == 200 && page.body == "<p>" && page.head.contains("text/html"))
        for target in ["/.console/", "/.console/app.js", "/.console/vigla.js"] {
            let head = try socket.get(target).head
            #expect(head.contains("; frame-ancestors 'none'\r\n") && head.contains("X-Frame-Options: DENY\r\n"), "\(target): \(head)")
        }
        #expect(try socket.get("/.console/app.js").head.contains("text/javascript"))
        #expect(try socket.get("/.console/llms.txt").head.contains("text/plain"), "shown by browsers, not saved")
        #expect(try socket.get("/.console/vigla.js").head.contains("Access-Control-Allow-Origin: *\r\n"), "pages of others import it")
        #expect(try !socket.get("/.console/app.js").head.contains("Access-Control"))
        #expect(try socket.get("/.console").status == 302)
        for outside in [
            "/.console/.secret", "/.console/../etc/passwd", "/.console/%2e%2e/passwd", "/.console/..%2fpasswd", "/.console/none.js",
        ] {
            #expect(try socket.get(outside).status == 404, "\(outside)")
        }
    }
}
