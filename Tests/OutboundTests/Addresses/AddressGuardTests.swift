import Curl
import Glibc
import TestSupport
import Testing

@testable import Outbound

/// Requests reach public addresses only, unless the configuration names others.
struct AddressGuardTests {
    private static let special = [
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
        "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
    ]

    /// The last address before each block, its first, its last, and the one behind it.
    @Test func specialBlocks_areRefused_upToTheirEdges() throws {
        let blocks = Self.special.compactMap(IPNetwork.init)
        #expect(blocks.count == Self.special.count)
        for text in Self.special {
            let parts = text.split(separator: "/")
            let first = try #require(IPAddress(String(parts[0]))?.v4)
            let last = first | UInt32(truncatingIfNeeded: UInt64(0xFFFF_FFFF) >> (try #require(UInt64(parts[1]))))
            for value in [first &- 1, first, last, last &+ 1] {
                let address = IPAddress(v4: value)
                #expect(address.isPublic != blocks.contains { $0.contains(address) }, "\(address)")
            }
        }
    }

    @Test func randomAddresses_areJudgedAsByTheListOfBlocks() {
        let blocks = Self.special.compactMap(IPNetwork.init)
        var random = SeededRandom(44)
        for _ in 0..<100_000 {
            let address = IPAddress(v4: UInt32.random(in: .min ... .max, using: &random))
            #expect(address.isPublic != blocks.contains { $0.contains(address) }, "\(address)")
        }
    }

    @Test func formsOfPrivateAddresses_areRefused() throws {
        for text in [
            "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::127.0.0.1",
            "64:ff9b:1::8.8.8.8", "64:ff9b::1:808:808", "2002:a00:1::", "2002:808:808::", "2001::1", "2001:1ff:ffff::", "2001:db8::1",
            "3fff::1", "3fff:fff::1", "fc00::1", "fdff::1", "fe80::1", "febf::1", "fec0::1", "ff02::1", "100::1", "1fff::1", "4000::1",
            "5f00::1",
        ] {
            #expect(try #require(IPAddress(text)).isPublic == false, "\(text)")
        }
        for text in [
            "8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2001:200::1", "2001:db7:ffff::1", "2001:db9::1", "2003::1",
            "2606:4700::1", "2a00:1450:4017::1", "3ffe::1", "3fff:1000::1",
        ] {
            #expect(try #require(IPAddress(text)).isPublic, "\(text)")
        }
    }

    @Test func configuration_permitsHostsAndNetworks() throws {
        let addresses = try AddressGuard(allowing: ["ntfy.lan", "10.0.0.0/8", "fd00::/8", "192.168.1.7"])
        func permits(_ text: String, _ host: String = "x.example") throws -> Bool {
            addresses.permits(try #require(IPAddress(text)), host: host)
        }
        for text in ["10.255.0.1", "::ffff:10.0.0.1", "fd12::1", "192.168.1.7", "8.8.8.8"] { #expect(try permits(text), "\(text)") }
        for text in ["127.0.0.1", "192.168.1.8", "fc12::1"] { #expect(try !permits(text), "\(text)") }
        #expect(try permits("127.0.0.1", "ntfy.lan") && !permits("127.0.0.1", "x.ntfy.lan"))
        #expect(try !AddressGuard().permits(#require(IPAddress("127.0.0.1")), host: "localhost"))
        #expect(try AddressGuard().allowing(host: "localhost").permits(#require(IPAddress("127.0.0.1")), host: "localhost"))
        for entry in ["", "10.0.0.0/33", "10.0.0.0/x", "fd00::/129", "a b", "http://x", "x/y", "x:80", "u@x", "*.lan", "[::1]"] {
            #expect(throws: AddressGuard.InvalidEntry.self, "\(entry)") { try AddressGuard(allowing: [entry]) }
        }
    }

    @Test func network_containsExactlyItsAddresses() throws {
        for bits in 0...32 {
            let network = try #require(IPNetwork("170.170.170.170/\(bits)"))
            for flipped in 0..<32 {
                let address = IPAddress(v4: 0xAAAA_AAAA ^ 1 << UInt32(31 - flipped))
                #expect(network.contains(address) == (flipped >= bits))
            }
        }
        #expect(try #require(IPNetwork("::/0")).contains(IPAddress(v4: 1)))
    }

    @Test func address_isReadFromASocketAddress() {
        var four = sockaddr_in()
        (four.sin_family, four.sin_addr.s_addr) = (sa_family_t(AF_INET), UInt32(0x0102_0304).bigEndian)
        let address = withUnsafePointer(to: &four) { $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { IPAddress($0) } }
        #expect(address?.description == "1.2.3.4")
        var other = sockaddr()
        other.sa_family = sa_family_t(AF_UNIX)
        #expect(IPAddress(&other) == nil)
        #expect(IPAddress("2001:db8::1")?.description == "2001:db8::1")
    }
}

/// Hosts are those that libcurl itself would connect to.
struct CurlURLTests {
    @Test func host_isWrittenOut() {
        for (text, host) in [
            ("https://0x7f.1/", "127.0.0.1"), ("https://2130706433/", "127.0.0.1"), ("https://017700000001/", "127.0.0.1"),
            ("https://EXAMPLE.org/", "example.org"), ("https://[::1]:8443/", "::1"), ("https://a.example\\@127.0.0.1/", nil),
            ("https://a.example#@127.0.0.1/", "a.example"), ("https://127.0.0.1?@a.example/", "127.0.0.1"),
            ("https://a%2eexample/", "a.example"), ("https://a%00b/", nil),
        ] as [(String, String?)] {
            #expect(CurlURL(text)?.host == host, "\(text)")
        }
    }

    @Test func origin_hasNoDefaultPort() {
        for (text, origin) in [
            ("https://A.example/x?y#z", "https://a.example"), ("https://a.example:443/", "https://a.example"),
            ("https://a.example:8443", "https://a.example:8443"), ("http://a.example:80/", "http://a.example"),
            ("https://[2001:db8::1]/", "https://[2001:db8::1]"),
        ] {
            #expect(CurlURL(text)?.origin == origin, "\(text)")
        }
        #expect(CurlURL("https://a.example/x?y#z")?.text == "https://a.example/x?y")
    }
}
