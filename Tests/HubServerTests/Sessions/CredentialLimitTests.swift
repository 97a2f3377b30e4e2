import HubEngine
import JSONTree
import Synchronization
import TestHub
import Testing
@testable import HubServer

/// The cost of invalid credentials is bounded.
@Suite(.timeLimit(.minutes(30))) struct CredentialLimitTests {
    /// Refuses everything but "good.token.x", and counts.
    private final class Verifier: TokenVerifier {
        private let count = Mutex(0)
        var checks: Int { count.withLock { $0 } }

        func verify(_ token: String, _ done: @escaping @Sendable (Result<Identity, Failure>) -> Void) {
            count.withLock { $0 += 1 }
            done(token == "good.token.x" ? .success(.anonymous) : .failure(Credentials.badToken))
        }
    }

    private func auth(_ number: Int, _ credential: String) -> String {
        #"{"t":"d","d":{"r":\#(number),"a":"auth","b":{"cred":"\#(credential)"}}}"#
    }

    /// An unsigned token of exactly this many bytes.
    private func token(_ bytes: Int) -> String {
        func padded(_ spaces: Int) -> String {
            let claims = Base64.encodeURL(Array((#"{"sub":"u""# + String(repeating: " ", count: spaces) + "}").utf8))
            return "e30.\(claims)."
        }
        var spaces = bytes * 3 / 4 - 40
        while padded(spaces).utf8.count < bytes { spaces += 1 }
        return padded(spaces)
    }

    @Test func credential_isRefused_whenItIsLongerThanAnyToken() throws {
        let server = try TestServer()
        let socket = try server.realtime().socket
        let most = TokenParts.maxBytes
        for (number, (bytes, status)) in [(most, "ok"), (most + 1, "invalid_token")].enumerated() {
            let token = token(bytes)
            #expect(token.utf8.count == bytes)
            try socket.sendText(auth(number, token))
            let answer = try socket.text()
            #expect(answer.contains(#""s":"\#(status)""#), "\(bytes): \(answer.prefix(200))")
        }
    }

    @Test func parts_areNotMade_ofWhatIsNoToken() {
        #expect(TokenParts.parts(of: "a.b.c")?.count == 3)
        #expect(TokenParts.parts(of: "a..")?.count == 3)
        #expect(TokenParts.parts(of: "a.b") == nil)
        #expect(TokenParts.parts(of: "a.b.c.d") == nil)
        #expect(TokenParts.parts(of: String(repeating: ".", count: 16 << 20)) == nil)
        #expect(TokenParts.claims(of: String(repeating: ".", count: 16 << 20)) == nil)
    }

    @Test func tenthRefusedCredential_endsTheConnection_andNoMoreAreChecked() throws {
        let verifier = Verifier()
        let server = try TestServer { $0.tokens = verifier }
        let patient = try server.realtime().socket
        for number in 1...9 {
            try patient.sendText(auth(number, "bad.token.x"))
            #expect(try patient.text().contains("invalid_token"))
        }
        try patient.sendText(auth(10, "good.token.x"))
        #expect(try patient.text().contains(#""s":"ok""#))
        // The count has started again.
        for number in 11...19 {
            try patient.sendText(auth(number, "bad.token.x"))
            #expect(try patient.text().contains("invalid_token"))
        }
        #expect(verifier.checks == 19)
        let others = try [server.realtime().socket, server.realtime().socket]
        for socket in others {
            for number in 1...200 { try? socket.sendText(auth(number, "bad.token.x")) }
            #expect(try socket.closeCode() == 1008)
        }
        #expect(verifier.checks == 39)
        try patient.sendText(auth(20, "bad.token.x"))
        #expect(try patient.closeCode() == 1008)
        #expect(verifier.checks == 40)
    }
}
