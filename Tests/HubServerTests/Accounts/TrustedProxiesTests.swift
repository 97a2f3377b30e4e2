import HTTPTypes
import Testing
import WireProtocols

@testable import HubServer

/// The client's address behind proxies, and the limit of account requests per network.
@Suite(.timeLimit(.minutes(30))) struct TrustedProxiesTests {
    private func client(_ proxies: [String], _ peer: String, _ fields: String...) throws -> String {
        var request = HTTPInboundRequest(method: .get, target: try HTTPTarget("/"), fields: [:])
        let name = try #require(HTTPField.Name("X-Forwarded-For"))
        for value in fields { request.fields.append(HTTPField(name: name, value: value)) }
        return try TrustedProxies(proxies).client(of: request, from: peer)
    }

    @Test func nobody_isBelieved_byDefault() throws {
        #expect(try client([], "10.0.0.1", "198.51.100.7") == "10.0.0.1")
        #expect(try client(["10.0.0.2"], "10.0.0.1", "198.51.100.7") == "10.0.0.1")
    }

    @Test func lastAddressThatIsNoProxy_isTheClient() throws {
        #expect(try client(["10.0.0.0/8"], "10.0.0.1") == "10.0.0.1")
        #expect(try client(["10.0.0.0/8"], "10.0.0.1", "198.51.100.7") == "198.51.100.7")
        // The client's own entries are ignored, even one that claims to be a proxy.
        #expect(try client(["10.0.0.0/8"], "10.0.0.1", "203.0.113.9, 10.9.9.9, 198.51.100.7 , 10.0.0.2") == "198.51.100.7")
        #expect(try client(["10.0.0.0/8"], "10.0.0.1", "203.0.113.9", "198.51.100.7,10.0.0.2") == "198.51.100.7")
        #expect(try client(["10.0.0.0/8"], "10.0.0.1", "10.0.0.3, 10.0.0.2") == "10.0.0.3")
        #expect(try client(["10.0.0.0/8"], "10.0.0.1", "198.51.100.7, nonsense, 10.0.0.2") == "10.0.0.2")
        #expect(try client(["127.0.0.1"], "::ffff:127.0.0.1", "198.51.100.7") == "198.51.100.7")
        #expect(try client(["::1"], "::1", "[2001:db8::9]:4711") == "2001:db8::9")
        #expect(try client(["::1"], "::1", "198.51.100.7:4711") == "198.51.100.7")
    }

    @Test func networks_endAtTheirBits() throws {
        for (block, inside, outside) in [
            ("192.0.2.128/25", "192.0.2.129", "192.0.2.127"), ("192.0.2.0/23", "192.0.3.255", "192.0.4.0"),
            ("192.0.2.1/32", "192.0.2.1", "192.0.2.0"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"), ("0.0.0.0/0", "203.0.113.1", "2001:db8::1"),
        ] {
            #expect(try client([block], inside, "198.51.100.7") == "198.51.100.7")
            #expect(try client([block], outside, "198.51.100.7") == outside)
        }
    }

    @Test(arguments: ["", "x", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0", "::/129", "10.0.0.0/8/8", "localhost"])
    func whatIsNoAddress_isAFault(_ text: String) {
        #expect(throws: TrustedProxies.NoAddress.self) { try TrustedProxies(["127.0.0.1", text]) }
    }

    @Test func requests_areBounded_inAllAndByNetwork() {
        let requests = AccountRequests(most: 5, ofNetwork: 2)
        #expect(requests.enter("192.0.2.1") && requests.enter("::ffff:192.0.2.1") && !requests.enter("192.0.2.1"))
        #expect(requests.enter("192.0.2.2") && requests.enter("192.0.2.3") && requests.enter("192.0.2.3"))
        #expect(!requests.enter("192.0.2.2"))
        requests.leave("192.0.2.1")
        #expect(requests.enter("192.0.2.1") && !requests.enter("192.0.2.4"))
        for peer in ["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.3", "192.0.2.9"] { requests.leave(peer) }
        #expect((1...5).allSatisfy { requests.enter("198.51.100.\($0)") } && !requests.enter("198.51.100.6"))
    }

    @Test func requests_ofAWideNetwork_areFourTimesThoseOfAnAddress() {
        let requests = AccountRequests(most: 100, ofNetwork: 2)
        #expect((1...20).count { requests.enter("2001:db8:1:\($0)::1") } == 8)
        #expect((1...20).count { requests.enter("2001:db8:2:7::\($0)") } == 2, "one address")
        requests.leave("2001:db8:1:1::9")
        #expect(requests.enter("2001:db8:1:99::1") && !requests.enter("2001:db8:1:98::1"))
    }
}
