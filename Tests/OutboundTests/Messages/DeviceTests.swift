import Curl
import JSONTree
import Mail
import Testing

@testable import Outbound

/// Rows of devices: each kind is read, and each fault has its reason.
struct DeviceTests {
    private func fault(_ row: Node, _ addresses: AddressGuard = AddressGuard()) -> DeviceFault? {
        do throws(DeviceFault) { _ = try Device(row, addresses: addresses); return nil } catch { return error }
    }

    private func row(_ change: (inout [Key: Node]) -> Void) -> Node {
        var members: [Key: Node] = [:]
        for (key, value) in Samples.pushRow().children { members[key] = value }
        change(&members)
        return .object(members.map { ($0.key, $0.value) })
    }

    @Test func row_isRead_ofEachKind() throws {
        for kind in ["webpush", "unifiedpush"] {
            let row = Samples.pushRow(declarative: true, kind: kind)
            guard case .push(let subscription) = try Device(row, addresses: AddressGuard()) else {
                Issue.record("not a push subscription")
                continue
            }
            #expect(subscription.endpoint.text == "https://push.example/p/Ab" && subscription.isDeclarative)
        }
        guard case .ntfy("alerts_X-1", nil) = try Device(["kind": "ntfy", "topic": "alerts_X-1"], addresses: AddressGuard()),
              case .ntfy("a", "home") = try Device(["kind": "ntfy", "topic": "a", "server": "home"], addresses: AddressGuard()),
              case .email(let address) = try Device(["kind": "email", "address": "ana@example.org"], addresses: AddressGuard()),
              case .webhook("sms", let row) = try Device(["kind": "webhook", "name": "sms", "number": 7], addresses: AddressGuard())
        else {
            Issue.record("another kind")
            return
        }
        #expect(address.text == "ana@example.org" && row.child("number") == 7)
    }

    @Test func row_hasAReason_whenItIsBad() {
        #expect(fault(.null) == .noObject)
        #expect(fault("webpush") == .noObject)
        #expect(fault(["endpoint": "https://x"]) == .missing("kind"))
        #expect(fault(["kind": 7]) == .noText("kind"))
        #expect(fault(["kind": "apns"]) == .kind("apns"))
        // It is shown to operators, and written to logs.
        #expect(fault(["kind": "a\u{1b}[2J\nb\u{202e}c"]) == .kind("a [2J b c"))
        #expect(fault(["kind": .string("e" + String(repeating: "\u{301}", count: 900))]) == .kind("e"))
        #expect(fault(row { $0["endpoint"] = nil }) == .missing("endpoint"))
        #expect(fault(row { $0["endpoint"] = true }) == .noText("endpoint"))
        #expect(fault(row { $0["endpoint"] = "http://push.example/" }) == .notSecure)
        for text in ["push.example", "ftp://push.example/", "https://u:p@push.example/", "https://push example/", "https://",
            "https://push.example./", "https://pütz.example/", "https://push.example:0/", "https://push.example:99999/",
            "https://a,b/", "https://a;b/", "https://a!b/", "https://a*b/", "https://a%2Cb/",
            "https://[::1;]/",
            "javascript:alert(1)", "https://push.example/\r\nX: y", "https://[fe80::1%25eth0]/", "//push.example/"] {
            #expect(fault(row { $0["endpoint"] = .string(text) }) == .endpoint, "\(text)")
        }
        #expect(fault(row { $0["keys"] = nil }) == .missing("keys"))
        #expect(fault(row { $0["keys"] = "x" }) == .missing("p256dh"))
        #expect(fault(row { $0["keys"] = ["p256dh": .string(RFC8291.receiverPublic)] }) == .missing("auth"))
        #expect(fault(row { $0["keys"] = ["p256dh": "AAAA", "auth": "AAAA"] }) == .keyLength("p256dh", is: 3, expected: 65))
        #expect(fault(row { $0["keys"] = ["p256dh": "+/+/", "auth": "AAAA"] }) == .keyText("p256dh"))
        #expect(fault(row { $0["keys"] = ["p256dh": .string(RFC8291.receiverPublic), "auth": "AAAA"] })
            == .keyLength("auth", is: 3, expected: 16))
        let zero = Base64.encodeURL([4] + [UInt8](repeating: 0, count: 64))
        #expect(fault(row { $0["keys"] = ["p256dh": .string(zero), "auth": .string(RFC8291.authentication)] }) == .keyNotOnCurve)
        for topic in ["", " ", "a/b", "ä", "a b", "a\n", String(repeating: "a", count: 65)] {
            #expect(fault(["kind": "ntfy", "topic": .string(topic)]) == (topic.isEmpty ? .noText("topic") : .topic), "\(topic)")
        }
        #expect(fault(["kind": "ntfy", "topic": .string(String(repeating: "a", count: 64))]) == nil)
        #expect(fault(["kind": "email", "address": "ana"]) == .address)
        #expect(fault(["kind": "webhook"]) == .missing("name"))
    }

    @Test func endpoint_has2048BytesAtMost() {
        let start = "https://push.example/"
        let longest = start + String(repeating: "a", count: 2_048 - start.utf8.count)
        #expect(fault(row { $0["endpoint"] = .string(longest) }) == nil)
        #expect(fault(row { $0["endpoint"] = .string(longest + "a") }) == .tooLong("endpoint"))
    }

    @Test func padding_isAccepted_inKeys() {
        #expect(fault(row {
            $0["keys"] = ["p256dh": .string(RFC8291.receiverPublic + "="), "auth": .string(RFC8291.authentication + "==")]
        }) == nil)
    }

    @Test func endpoint_mayBeWithoutTLS_whereItIsAllowedToBePrivate() throws {
        let addresses = try AddressGuard(allowing: ["push.lan", "10.0.0.0/8"])
        for host in ["push.lan", "10.1.2.3"] {
            #expect(fault(row { $0["endpoint"] = .string("http://\(host)/") }, addresses) == nil)
        }
        for host in ["x.push.lan", "11.1.2.3", "push.lan.example"] {
            #expect(fault(row { $0["endpoint"] = .string("http://\(host)/") }, addresses) == .notSecure)
        }
    }
}
