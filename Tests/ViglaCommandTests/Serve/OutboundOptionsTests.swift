import Foundation
import Testing
import TestSupport

/// The section `outbound` of the configuration file, from the outside.
@Suite(.timeLimit(.minutes(30))) struct OutboundOptionsTests {
    private static let secret = "a secret of 24 letters..", token = "tk_9a8b7c6d5e4f"

    private func whole(_ folder: TemporaryFolder) throws -> String {
        """
        {"port":0,"data":"data","rules":"\(try folder.file("rules.json", #"{"rules":{}}"#))","outbound":{
          "subject":"mailto:ops@example.org","site":"https://app.example","private-hosts":["push.lan","10.1.0.0/16"],
          "ntfy":{"home":{"url":"http://ntfy.lan","token":"\(Self.token)","topic-prefix":"app-","private":true},
                  "default":{"url":"https://ntfy.example","token-file":"\(try folder.file("ntfy.token", Self.token + "\n"))",
                             "topic-prefix":"app-"}},
          "webhooks":{"sms":{"url":"https://sms.example/send","secret":"\(Self.secret)","headers":{"X-Key":"\(Self.token)"},
                             "timeout-seconds":20,"devices":true},
                      "site":{"url":"http://site.lan/hook","secret-file":"\(try folder.file("hook.secret", Self.secret + "\n"))",
                              "private":true}}}}
        """
    }

    @Test func wholeSection_isAccepted_andShowsNoSecret() throws {
        let folder = try TemporaryFolder()
        let config = try folder.file("hub.json", whole(folder))
        let check = try Command.run(["serve", "--check", "--config", config], in: folder.url)
        #expect(check.code == 0 && check.error.isEmpty, "\(check.error)")
        let print = try Command.run(["serve", "--print-config", "--config", config], in: folder.url)
        #expect(print.output.contains("Web Push, ntfy default, ntfy home, webhook site, webhook sms"))
        for secret in [Self.secret, Self.token] { #expect(!print.output.contains(secret)) }
    }

    @Test func keyForBrowsers_isPublished_andKept() throws {
        let folder = try TemporaryFolder()
        let config = try folder.file("hub.json", whole(folder))
        func page() throws -> String {
            let hub = try RunningHub(["--config", config], folder: folder)
            defer { #expect(hub.stop() == 0) }
            let page = try hub.page("/.push/key")
            for secret in [Self.secret, Self.token] { #expect(!hub.error.contains(secret) && !hub.readyLine.contains(secret)) }
            return page.split(separator: "\r\n\r\n").last.map(String.init) ?? ""
        }
        let first = try page()
        #expect(first.hasPrefix(#"{"applicationServerKey":"B"#), "\(first)")
        #expect(try page() == first)
    }

    @Test func faults_nameTheirKey_andAreReportedAtOnce() throws {
        let folder = try TemporaryFolder()
        let config = try folder.file("hub.json", """
            {"outbound":{
              "subject":"ops@example.org","site":"https://app.example/path","private-hosts":["10.0.0.0/33"],"certificates":"none.pem",
              "colour":1,
              "ntfy":{"a b":{"url":"http://ntfy.example","token":"two words","topic-prefix":"ü"},
                      "b":{"url":"https://ntfy.example","token":"\(Self.token)","private":"yes"},"c":{}},
              "webhooks":{"short":{"url":"https://sms.example","secret":"short"},
                          "both":{"url":"https://sms.example","secret":"\(Self.secret)","secret-file":"none.secret"},
                          "none":{"url":"https://sms.example"},
                          "slow":{"url":"https://sms.example","secret":"\(Self.secret)","timeout-seconds":61},
                          "host":{"url":"https://sms.example","secret":"\(Self.secret)","headers":{"Host":"x"}},
                          "list":3}}}
            """)
        let result = try Command.run(["serve", "--check", "--config", config], in: folder.url)
        #expect(result.code == 78)
        let place = "\(config): \"outbound\""
        for fault in [
            #": "subject": expected mailto: and an address"#, #": "site": expected an address without a path"#,
            #": "private-hosts": "#, #": "certificates": none.pem: "#, #": there is no "colour" here"#,
            #": "ntfy": "a b": a name has 1–64 letters"#, #": "ntfy": "a b": "url": expected an address that begins with https://"#,
            #": "ntfy": "b": "token": it is sent for topics with a prefix only"#, #": "ntfy": "b": "private": expected true or false"#,
            #": "ntfy": "c": "url": an address such as"#, #": "webhooks": "short": "secret": expected 16 to 1,024 bytes"#,
            #": "webhooks": "both": "secret-file": there is a "secret" already"#, #": "webhooks": "both": "secret-file": none.secret: "#,
            #": "webhooks": "none": "secret": a text of 16 to 1,024 bytes is needed"#,
            #": "webhooks": "slow": "timeout-seconds": expected a whole number (1…60)"#,
            #": "webhooks": "host": "headers": "Host" is set by the hub"#, #": "webhooks": "list": expected an object"#,
        ] {
            #expect(result.error.contains(place + fault), "\(fault) in \(result.error)")
        }
        for secret in [Self.secret, Self.token] { #expect(!result.error.contains(secret)) }
    }
}
