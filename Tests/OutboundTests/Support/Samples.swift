import Cryptography
import JSONTree
import Mail

@testable import Outbound

/// Rows of devices and keys for tests.
enum Samples {
    static let now: Int64 = 1_790_000_000_000

    /// A row of a browser, with the example's keys of RFC 8291 §5.
    static func pushRow(endpoint: String = "https://push.example/p/Ab", declarative: Bool = false, kind: String = "webpush") -> Node {
        [
            "kind": .string(kind), "endpoint": .string(endpoint), "declarative": .bool(declarative),
            "keys": ["p256dh": .string(RFC8291.receiverPublic), "auth": .string(RFC8291.authentication)],
        ]
    }

    static func subscription(endpoint: String = "https://push.example/p/Ab", declarative: Bool = false) throws -> PushSubscription {
        try PushSubscription(pushRow(endpoint: endpoint, declarative: declarative), AddressGuard())
    }

    static func signer() throws -> VAPIDSigner { VAPIDSigner(try VAPIDKey.make(), subject: "mailto:ops@example.org") }

    static func notification(title: String = "Lunch", body: String = "at one") -> Notification {
        Notification(id: "n-1", title: title, body: body, url: "https://app.example/n/1", tag: "lunch", language: "en", badge: 3)
    }
}

extension Delivery {
    var request: OutboundRequest? { if case .request(let request) = self { request } else { nil } }
    var mail: Message? { if case .mail(let message) = self { message } else { nil } }
}

extension OutboundRequest {
    /// The value of a header field; nil without it.
    func field(_ name: String) -> String? { fields.first { $0.name.lowercased() == name.lowercased() }?.value }
}

/// The example of RFC 8291 §5 and appendix A.
enum RFC8291 {
    static let plaintext = "When I grow up, I want to be a watermelon"
    static let authentication = "BTBZMqHH6r4Tts7J_aSIgg"
    static let receiverPublic = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
    static let senderPrivate = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
    static let salt = "DGv6ra1nlYgDCS1FRnbzlw"
    static let body = """
        DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4\
        Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN
        """
}
