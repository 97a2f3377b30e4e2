import Testing

@testable import Outbound

/// Faults of the configuration name their member; limits hold on both sides.
struct OutboundConfigurationTests {
    private func member(_ body: () throws -> Void) -> String? {
        do { try body(); return nil } catch { return (error as? ConfigurationFault)?.member ?? "\(error)" }
    }

    @Test func subject_isAMailAddressOrHTTPS() {
        var configuration = OutboundConfiguration()
        for subject in ["mailto:ops@example.org", "https://example.org/contact"] {
            #expect(member { try configuration.set(subject: subject) } == nil)
        }
        for subject in ["", "ops@example.org", "mailto:", "mailto:@", "mailto:ops", "http://example.org", "mailto:a@b\n", "mailto:ä@b"] {
            #expect(member { try configuration.set(subject: subject) } == "subject", "\(subject)")
        }
    }

    @Test func site_hasNoPath() {
        var configuration = OutboundConfiguration()
        #expect(member { try configuration.set(site: "https://app.example/") } == nil)
        #expect(configuration.site == "https://app.example")
        for site in ["https://app.example/app", "app.example", "https://app.example/?x"] {
            #expect(member { try configuration.set(site: site) } == "site", "\(site)")
        }
    }

    @Test func webhook_checksEachMember() {
        func webhook(
            _ url: String = "https://x.example/", _ secret: String = "0123456789abcdef", _ fields: [(name: String, value: String)] = [],
            _ seconds: Int = 10, isPrivate: Bool = false
        ) -> String? {
            member { _ = try Webhook(url: url, secret: secret, fields: fields, timeoutSeconds: seconds, isPrivate: isPrivate) }
        }
        #expect(webhook() == nil)
        #expect(webhook("http://x.example/") == "url" && webhook("http://x.example/", isPrivate: true) == nil && webhook("x") == "url")
        #expect(webhook("https://x.example/", String(repeating: "s", count: 15)) == "secret")
        #expect(webhook("https://x.example/", String(repeating: "s", count: 1_024)) == nil)
        #expect(webhook("https://x.example/", String(repeating: "s", count: 1_025)) == "secret")
        for seconds in [0, 61] { #expect(webhook("https://x.example/", "0123456789abcdef", [], seconds) == "timeout-seconds") }
        for seconds in [1, 60] { #expect(webhook("https://x.example/", "0123456789abcdef", [], seconds) == nil) }
        func fields(_ fields: (String, String)...) -> String? {
            webhook("https://x.example/", "0123456789abcdef", fields.map { (name: $0.0, value: $0.1) })
        }
        #expect(fields(("Authorization", "Bearer x"), ("X-A", "")) == nil)
        for (name, value) in [
            ("", "x"), ("a b", "x"), ("a:", "x"), ("X", "a\r\nB: c"), ("X", "ä"), ("X", String(repeating: "a", count: 4_097)),
            ("Content-Type", "x"), ("HOST", "x"), ("vigla-signature", "x"),
        ] {
            #expect(fields((name, value)) == "headers", "\(name)")
        }
        #expect(fields(("X", String(repeating: "a", count: 4_096))) == nil)
        #expect(fields(("X", "1"), ("x", "2")) == "headers")
        #expect(webhook("https://x.example/", "0123456789abcdef", (1...32).map { ("X\($0)", "a") }) == nil)
        #expect(webhook("https://x.example/", "0123456789abcdef", (1...33).map { ("X\($0)", "a") }) == "headers")
    }

    @Test func ntfyServer_checksURLAndToken() {
        #expect(member { _ = try NtfyServer(url: "https://ntfy.sh") } == nil)
        #expect(member { _ = try NtfyServer(url: "http://ntfy.lan") } == "url")
        #expect(member { _ = try NtfyServer(url: "http://ntfy.lan", isPrivate: true) } == nil)
        for prefix in ["", "a b", "a/", String(repeating: "a", count: 33)] {
            #expect(member { _ = try NtfyServer(url: "https://ntfy.sh", topicPrefix: prefix) } == "topic-prefix", "\(prefix)")
        }
        #expect(member { _ = try NtfyServer(url: "https://ntfy.sh", topicPrefix: String(repeating: "a", count: 32)) } == nil)
        for token in ["", "a b", "a\n", "ä", String(repeating: "a", count: 1_025)] {
            #expect(member { _ = try NtfyServer(url: "https://ntfy.sh", token: token) } == "token", "\(token)")
        }
    }
}
