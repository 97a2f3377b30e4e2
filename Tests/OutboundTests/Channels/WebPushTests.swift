import Cryptography
import Curl
import JSONTree
import Testing

@testable import Outbound

/// Web Push as RFC 8030, RFC 8291 and RFC 8292 specify it.
struct WebPushTests {
    @Test func encryption_isThatOfTheStandardsExample() throws {
        let body = try WebPushEncryption.encrypt(
            Array(RFC8291.plaintext.utf8), for: Samples.subscription(), ephemeral: VAPIDKey(text: RFC8291.senderPrivate).key,
            salt: #require(Base64.decodeURL(RFC8291.salt)))
        #expect(Base64.encodeURL(body) == RFC8291.body)
    }

    @Test func message_has3993BytesAtMost() throws {
        let subscription = try Samples.subscription()
        let longest = [UInt8](repeating: 7, count: 3_993)
        let body = try WebPushEncryption.encrypt(longest, for: subscription, ephemeral: .make(.p256), salt: SecureRandom.bytes(16))
        #expect(body.count == 4_096)
        #expect(throws: CryptographyError.refused) {
            try WebPushEncryption.encrypt(longest + [7], for: subscription, ephemeral: .make(.p256), salt: SecureRandom.bytes(16))
        }
    }

    @Test func request_hasTheFieldsOfTheStandards() throws {
        var notification = Samples.notification()
        notification.expiresAt = Samples.now + 90_000
        let signer = try Samples.signer()
        let request = try WebPushRequest.make(notification, for: Samples.subscription(), signer, now: Samples.now)
        #expect(request.url.text == "https://push.example/p/Ab")
        #expect(request.field("TTL") == "90" && request.field("Urgency") == "normal" && request.field("Topic") == "lunch")
        #expect(request.field("Content-Encoding") == "aes128gcm" && request.field("Content-Type") == "application/octet-stream")
        #expect(request.field("Authorization") == (try signer.authorization(for: "https://push.example", now: Samples.now)))
        #expect(request.body.count > 103)
        notification.isUrgent = true
        notification.tag = "a tag with spaces"
        let urgent = try WebPushRequest.make(notification, for: Samples.subscription(declarative: true), signer, now: Samples.now)
        #expect(urgent.field("Urgency") == "high" && urgent.field("Content-Type") == "application/notification+json")
        #expect(urgent.field("Topic") == "a tag with spaces".urlSafe(limit: 32))
        // A key is used for one message only.
        #expect(request.body[21..<86] != urgent.body[21..<86] && request.body[..<16] != urgent.body[..<16])
    }

    @Test func message_isDeclarative() throws {
        var notification = Samples.notification()
        notification.isSilent = true
        let message = try JSONValue(PushMessage(notification).bytes(limit: 3_993))
        #expect(message == [
            "web_push": 8030,
            "notification": [
                "title": "Lunch", "body": "at one", "navigate": "https://app.example/n/1", "tag": "lunch", "lang": "en", "silent": true,
                "data": ["id": "n-1", "url": "https://app.example/n/1"],
            ],
            "app_badge": 3,
        ])
        #expect(throws: RequestFault.self) { try PushMessage(Notification(id: "1", title: "", body: "x")).bytes(limit: 3_993) }
    }

    @Test func longTexts_areCut_untilTheMessageFits() throws {
        for (title, body) in [
            ("x", String(repeating: "Καλημέρα ", count: 2_000)), (String(repeating: "t", count: 9_000), "b"),
            (String(repeating: "\"", count: 9_000), String(repeating: "\u{2}", count: 9_000)),
        ] {
            let bytes = try PushMessage(Samples.notification(title: title, body: body)).bytes(limit: 3_993)
            #expect(bytes.count <= 3_993)
            let shown = try #require(try JSONValue(bytes)["notification"])
            let (shownTitle, shownBody) = (try #require(shown["title"]?.string), try #require(shown["body"]?.string))
            #expect(shownTitle == title || shownTitle.hasSuffix("…"))
            #expect(shownBody == body || shownBody.hasSuffix("…"))
            #expect(title.hasPrefix(shownTitle.dropLast()) && body.hasPrefix(shownBody.dropLast()))
        }
        var long = Samples.notification()
        long.url = "https://app.example/" + String(repeating: "a", count: 4_000)
        #expect(throws: RequestFault.self) { try PushMessage(long).bytes(limit: 3_993) }
    }

    @Test func message_fillsTheLimit_andNoMore() throws {
        let empty = try PushMessage(Samples.notification(body: "")).bytes(limit: 3_993).count
        let fitting = String(repeating: "b", count: 3_993 - empty)
        let message = try PushMessage(Samples.notification(body: fitting)).bytes(limit: 3_993)
        #expect(message.count == 3_993 && !message.contains(0xE2))
        let cut = try PushMessage(Samples.notification(body: fitting + "b")).bytes(limit: 3_993)
        #expect(cut.count == 3_993 && cut.contains(0xE2))
    }
}

/// Tokens for push services.
struct VAPIDTests {
    private func claims(_ authorization: String, _ key: VAPIDKey) throws -> JSONValue {
        let parts = authorization.split(separator: ",")
        #expect(parts.count == 2 && parts[0].hasPrefix("vapid t=") && parts[1] == "k=\(key.publicText)")
        let sections = parts[0].dropFirst("vapid t=".count).split(separator: ".")
        #expect(try JSONValue(#require(Base64.decodeURL(sections[0]))) == ["typ": "JWT", "alg": "ES256"])
        let signature = try #require(Base64.decodeURL(sections[2]))
        #expect(key.key.publicKey.isSignature(signature, of: "\(sections[0]).\(sections[1])".utf8))
        return try JSONValue(#require(Base64.decodeURL(sections[1])))
    }

    @Test func token_namesOriginOwnerAndEnd() throws {
        let signer = try Samples.signer()
        let claims = try claims(signer.authorization(for: "https://push.example:8443", now: Samples.now), signer.key)
        #expect(claims == [
            "aud": "https://push.example:8443", "exp": .int(Samples.now / 1000 + 12 * 3_600), "sub": "mailto:ops@example.org",
        ])
    }

    @Test func token_isKeptForSixHours_perOrigin() throws {
        let (signer, origin) = (try Samples.signer(), "https://push.example")
        let first = try signer.authorization(for: origin, now: Samples.now)
        #expect(try signer.authorization(for: origin, now: Samples.now + VAPIDSigner.renewalMs - 1) == first)
        #expect(try signer.authorization(for: "https://other.example", now: Samples.now) != first)
        #expect(try signer.authorization(for: origin, now: Samples.now + VAPIDSigner.renewalMs) != first)
        // The clock was set back by a day.
        let past = Samples.now - 86_400_000
        let exp = try #require(try claims(signer.authorization(for: origin, now: past), signer.key)["exp"]?.int)
        #expect(exp == past / 1000 + 12 * 3_600)
    }

    @Test func tokens_areKeptForABoundedNumberOfOrigins() throws {
        let signer = try Samples.signer()
        let first = try signer.authorization(for: "https://first.example", now: Samples.now)
        for i in 1..<VAPIDSigner.origins { _ = try signer.authorization(for: "https://\(i).example", now: Samples.now) }
        #expect(try signer.authorization(for: "https://first.example", now: Samples.now) == first)
        _ = try signer.authorization(for: "https://last.example", now: Samples.now)
        #expect(try signer.authorization(for: "https://first.example", now: Samples.now) != first)
    }

    @Test func key_isTheSame_afterItWasStored() throws {
        let key = try VAPIDKey.make()
        #expect(try VAPIDKey(text: key.text()).publicText == key.publicText)
        #expect(try #require(Base64.decodeURL(key.publicText)).count == 65)
        // The bare number, as other senders store it.
        #expect(try VAPIDKey(text: RFC8291.senderPrivate).publicText
            == "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8")
        for text in ["", "x", "?", RFC8291.authentication, Base64.encodeURL([UInt8](repeating: 0, count: 32))] {
            #expect(throws: CryptographyError.self) { try VAPIDKey(text: text) }
        }
        #expect(throws: CryptographyError.unsupportedKey) {
            try VAPIDKey(text: PrivateKey.make(.rsa).der().withUnsafeBytes { Base64.encodeURL($0) })
        }
    }
}
