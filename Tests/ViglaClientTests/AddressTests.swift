import JSONTree
import Testing

@testable import ViglaClient

@Suite(.timeLimit(.minutes(30))) struct AddressTests {
    @Test(arguments: [
        ("http://127.0.0.1:9000/users/ana?ns=demo", "127.0.0.1", 9000, "demo", "/users/ana"),
        ("ws://localhost:9001", "localhost", 9001, nil, "/"),
        ("localhost:9000/a//b/", "localhost", 9000, nil, "/a/b"),
        ("http://[::1]:9000/a", "::1", 9000, nil, "/a"),
        ("http://hub.example/a?ns=", "hub.example", 80, nil, "/a"),
        ("http://h:1/a%20b/Καλλιθέα", "h", 1, nil, "/a b/Καλλιθέα"),
        ("http://h:1/a b", "h", 1, nil, "/a b"),
    ] as [(String, String, UInt16, String?, String)])
    func url_isReadAsWritten(_ text: String, _ host: String, _ port: UInt16, _ namespace: String?, _ path: String) throws {
        let url = try HubURL(text)
        #expect(url.address == HubAddress(host: host, port: port, namespace: namespace))
        #expect(url.path.description == path)
        #expect(try HubURL(url.description) == url)
    }

    @Test(arguments: [
        ("https://hub.example/a", 443), ("wss://hub.example/a", 443), ("HTTPS://hub.example:9443/a", 9443),
    ] as [(String, UInt16)])
    func secureURL_isReadAsWritten(_ text: String, _ port: UInt16) throws {
        let url = try HubURL(text)
        #expect(url.address == HubAddress(host: "hub.example", port: port, isSecure: true))
        #expect(url.description == "https://hub.example:\(port)/a")
    }

    @Test(arguments: [
        ("ftp://h/a", HubURLError.scheme("ftp")), ("http:///a", .unreadable("http:///a")),
        ("http://h:x/a", .host("http://h:x/a")), ("http://h:0/a", .host("http://h:0/a")), ("http://h:1/a.b", .path("a.b")),
        ("http://h:1/a%2Fb", .path("a/b")), ("http://h:1/a%zz", .unreadable("http://h:1/a%zz")),
    ])
    func badURL_saysWhatIsWrong(_ text: String, _ expected: HubURLError) {
        #expect(throws: expected) { try HubURL(text) }
    }

    @Test func priority_isNamedAtTheEndOfAPath_whereItIsTaken() throws {
        for text in ["http://h:1/a/.priority", "http://h:1/a/.priority.json"] {
            let url = try HubURL(text, takesPriority: true)
            #expect(url.isPriority && url.path.description == "/a" && url.resource == "/a/.priority.json")
            #expect(url.description == "http://h:1/a/.priority")
            #expect(throws: HubURLError.path(".priority")) { try HubURL(text) }
        }
        let root = try HubURL("http://h:1/.priority", takesPriority: true)
        #expect(root.isPriority && root.path.isRoot && root.resource == "/.priority.json")
        #expect(throws: HubURLError.self) { try HubURL("http://h:1/.priority/a", takesPriority: true) }
        #expect(try !HubURL("http://h:1/a", takesPriority: true).isPriority)
    }

    @Test func target_carriesTheNamespaceEncoded() {
        #expect(HubAddress(namespace: "a&b").target == "/.observe?ns=a%26b")
        #expect(HubAddress().target == "/.observe")
        #expect(HubAddress(host: "::1", port: 9).hostField == "[::1]:9")
    }

    @Test func path_deeperThan32_isRefused() throws {
        let keys = { (count: Int) in String(repeating: "/k", count: count) }
        #expect(try HubURL("http://h:1" + keys(32)).path.depth == 32)
        #expect(throws: HubURLError.self) { try HubURL("http://h:1" + keys(33)) }
    }
}

@Suite(.timeLimit(.minutes(30))) struct BackoffTests {
    @Test func delay_doublesUpToTheLast_withinHalfAndWhole() {
        var backoff = Backoff(100, 1_500)
        for expected in [100, 200, 400, 800, 1_500, 1_500] { #expect((expected / 2...expected).contains(backoff.nextMs())) }
        backoff.reset()
        #expect((50...100).contains(backoff.nextMs()))
    }

    @Test func delays_ofManyClients_differ() {
        let delays = (0..<100).map { _ in
            var backoff = Backoff(10_000, 10_000)
            return backoff.nextMs()
        }
        #expect(Set(delays).count > 50)
    }
}

@Suite(.timeLimit(.minutes(30))) struct DevelopmentTokenTests {
    @Test func token_hasThreePartsAndNoSignature() throws {
        let parts = try DevelopmentToken.mint(uid: "ana", claims: #"{"email_verified":true}"#).split(
            separator: ".", omittingEmptySubsequences: false)
        #expect(parts.count == 3)
        #expect(parts[0] == "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0")
        #expect(parts[2] == "")
    }

    @Test(arguments: ["[]", "1", "{", "{} x", ""]) func claims_thatAreNoObject_areRefused(_ claims: String) {
        #expect(throws: DevelopmentToken.ClaimsError.notAnObject) { try DevelopmentToken.mint(uid: "ana", claims: claims) }
    }

    @Test func claims_ofTheTokenItself_areRefused() {
        #expect(throws: DevelopmentToken.ClaimsError.reserved("sub")) { try DevelopmentToken.mint(uid: "ana", claims: #"{"sub":"eve"}"#) }
    }
}
