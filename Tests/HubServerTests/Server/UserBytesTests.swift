import DispatchNet
@testable import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing
import TestSupport

/// Bytes by user: how many users are tracked, and which bytes each is charged.
@Suite(.timeLimit(.minutes(30))) struct UserBytesTests {
    private let clock = FakeClock()

    /// Unsigned: a development hub accepts it.
    private func token(_ user: String) -> String {
        let claims = "{\"sub\":\"\(user)\",\"iat\":0,\"exp\":3600}"
        return "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0." + Base64.encodeURL(Array(claims.utf8)) + "."
    }

    private func server(_ configure: (inout ServerSettings) -> Void = { _ in }) throws -> TestServer {
        let rules = try RuleSet(parsing: #"{"rules":{".read":true,".write":true}}"#)
        return try TestServer(scheduler: clock.scheduler) {
            $0.rules = rules
            $0.countsUserBytes = true
            configure(&$0)
        }
    }

    private func bytes(_ server: TestServer, _ user: String) throws -> Int {
        let page = try RESTPeer.owner(server).get("/.metrics?by=user")
        let line = page.split(separator: "\n").first { $0.hasPrefix("vigla_user_sent_bytes_total{user=\"\(user)\"} ") }
        return line.flatMap { $0.split(separator: " ").last.flatMap { Int($0) } } ?? 0
    }

    // MARK: The table

    @Test func users_areRemembered_upToTheBound_andThoseWithMost() {
        let users = UserBytes(remembered: 10)
        for number in 1...20 { users.counter(of: "u\(number)").add(number) }
        #expect(users.count == 20 && users.reading.count == 20, "twice as many may be there")
        users.counter(of: "late").add(1_000)
        #expect(users.count == 11)
        #expect(users.reading.map { $0.user } == ["late"] + (11...20).reversed().map { "u\($0)" } + [""])
        #expect(users.reading.last?.bytes == (1...10).reduce(0, +), "nothing is lost of the others")
    }

    @Test func connectedUsers_areNotForgotten_howeverManyThereAre() {
        let users = UserBytes(remembered: 10)
        let held = (1...40).map { users.counter(of: "c\($0)") }
        for (number, counter) in held.enumerated() { counter.add(number == 0 ? 1 : 5) }
        for number in 0..<500 { users.counter(of: "x\(number)").add(2) }
        #expect(users.reading.contains { $0.user == "c1" && $0.bytes == 1 })
        #expect(users.count <= 2 * (40 + 10) + 1)
        #expect(users.reading.reduce(0) { $0 + $1.bytes } == 1 + 39 * 5 + 1_000)
        withExtendedLifetime(held) {}
    }

    @Test func shownAreOneHundred_andTheRestIsOneNumber() {
        let users = UserBytes(remembered: 1_000)
        for number in 1...UserBytes.shown { users.counter(of: "u\(number)").add(10) }
        #expect(users.reading.count == UserBytes.shown && users.reading.allSatisfy { !$0.user.isEmpty })
        users.counter(of: "small").add(1)
        #expect(users.reading.count == UserBytes.shown + 1)
        #expect(users.reading.last.map { $0 == ("", 1) } == true)
    }

    @Test func longNames_areCountedTogether() {
        let users = UserBytes(remembered: 10)
        let longest = String(repeating: "u", count: UserBytes.nameBytes)
        users.counter(of: longest).add(1)
        for more in ["x", "y"] { users.counter(of: longest + more).add(2) }
        #expect(users.reading.map { $0.user } == [longest, ""] && users.reading.last?.bytes == 4)
    }

    // MARK: Over sockets

    /// Whether a user was sent this many values of 50,000 bytes, and little else. Bytes may be counted a moment after they arrive.
    private func wasSent(_ values: Int, _ user: String, _ server: TestServer) throws -> Bool {
        guard try becomes({ try bytes(server, user) >= values * 50_000 }) else { return false }
        return try bytes(server, user) < values * 50_000 + 5_000
    }

    @Test func whatIsSent_isCounted_forWhoIsSignedIn() throws {
        let server = try server()
        let (ana, bo) = (token("ana"), token("bo"))
        let big = String(repeating: "x", count: 50_000)
        try RESTPeer(server).put("/big.json?print=silent", "\"\(big)\"")
        // REST: two users over one connection, and an anonymous request.
        let peer = try RESTPeer(server)
        for query in ["?auth=\(ana)", "?auth=\(bo)", "?auth=\(bo)", ""] { _ = try peer.get("/big.json" + query) }
        #expect(try wasSent(1, "ana", server) && wasSent(2, "bo", server))
        // A REST stream.
        let stream = try RESTPeer(server)
        try stream.stream("/big.json?auth=\(ana)")
        _ = try stream.event()
        #expect(try wasSent(2, "ana", server))
        // A socket of the observe protocol: counted from its sign-in on, for that user.
        let socket = try TestSocket(port: server.port)
        socket.server = server
        try socket.upgrade("/.observe?ns=test")
        func ask(_ request: String) throws {
            try socket.sendText(request)
            _ = try socket.text()
        }
        for token in [nil, bo, ana] {
            if let token { try ask(#"{"id":1,"op":"auth","token":"\#(token)"}"#) }
            try ask(#"{"id":2,"op":"get","path":"/big"}"#)
        }
        #expect(try wasSent(3, "bo", server) && wasSent(3, "ana", server))
        // A realtime socket, which signs out again.
        let realtime = try server.realtime().socket
        func send(_ request: String) throws {
            try realtime.sendText(request)
            _ = try realtime.text()
        }
        try send(#"{"t":"d","d":{"r":1,"a":"auth","b":{"cred":"\#(bo)"}}}"#)
        try send(#"{"t":"d","d":{"r":2,"a":"g","b":{"p":"/small"}}}"#)
        try send(#"{"t":"d","d":{"r":3,"a":"unauth","b":{}}}"#)
        let before = try bytes(server, "bo")
        try send(#"{"t":"d","d":{"r":4,"a":"p","b":{"p":"/small","d":1}}}"#)
        for number in 5..<15 { try send("{\"t\":\"d\",\"d\":{\"r\":\(number),\"a\":\"g\",\"b\":{\"p\":\"/small\"}}}") }
        #expect(try bytes(server, "bo") == before)
    }

    @Test func users_areShownToAdministratorsAlone_andOnlyOnRequest() throws {
        let server = try server { $0.metrics = .all }
        let ana = token("ana")
        _ = try RESTPeer(server).get("/a.json?auth=\(ana)")
        let (owner, stranger) = (try RESTPeer.owner(server), try RESTPeer(server))
        #expect(try owner.get("/.metrics?by=user").contains(#"vigla_user_sent_bytes_total{user="ana"}"#))
        for page in [try owner.get("/.metrics"), try stranger.get("/.metrics")] {
            #expect(page.hasPrefix("200") && !page.contains("ana") && !page.contains("vigla_user_sent_bytes"))
        }
        #expect(try stranger.refusal("GET", "/.metrics?by=user") == "401 Permission denied")
        #expect(try stranger.refusal("GET", "/.metrics?by=user&auth=\(ana)") == "401 Permission denied")
        #expect(try RESTPeer.owner(self.server { $0.metrics = .off }).line("GET", "/.metrics?by=user").hasPrefix("404"))
    }

    @Test func withoutTheOption_nothingIsCounted() throws {
        let server = try server { $0.countsUserBytes = false }
        _ = try RESTPeer(server).get("/a.json?auth=\(token("ana"))")
        #expect(server.server.sessions.users == nil)
        let page = try RESTPeer.owner(server).get("/.metrics?by=user")
        #expect(page.hasPrefix("200") && !page.contains("vigla_user_sent_bytes"))
    }
}
