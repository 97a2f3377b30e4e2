import Dispatch
import Foundation
import HubEngine
import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing
import TestSupport

/// Runs the conversations of docs/observe-protocol.md against a hub and compares every line that the hub sends.
///
///     <!-- tested: observe rules -->   the rules of the hub
///     <!-- tested: observe -->         a conversation: `→` client message or action (`close`), `←` hub message; `2→`, `2←`: a second connection
///     <!-- tested: observe alone -->   the same with a separate hub, to which the lines in parentheses happen
///
/// Conversations of the first kind run one after the other with one hub. `…` matches any text; an epoch that is sent back is the received one.
@Suite(.timeLimit(.minutes(30))) struct ObserveDocumentTests {
    private struct Block {
        let line: Int
        let lines: [String]
    }

    /// The blocks of a kind, in order.
    private static func blocks(_ kind: String, of text: String) -> [Block] {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        var found: [Block] = []
        for (number, line) in lines.enumerated() where line == "<!-- tested: \(kind) -->" {
            let body = lines[(number + 1)...].drop { $0.isEmpty }.dropFirst().prefix { !$0.hasPrefix("```") }
            found.append(Block(line: number + 1, lines: Array(body)))
        }
        return found
    }

    private static func isMeant(_ told: String, by line: String) -> Bool {
        let parts = line.components(separatedBy: "…")
        guard parts.count > 1 else { return told == line }
        let pattern = "^" + parts.map { NSRegularExpression.escapedPattern(for: $0) }.joined(separator: ".*") + "$"
        return told.range(of: pattern, options: .regularExpression) != nil
    }

    /// The page's conversations of a kind, and the rules of their hub.
    private static func page(_ kind: String) throws -> (rules: RuleSet, conversations: [Block]) {
        let root = (1...4).reduce(URL(fileURLWithPath: #filePath)) { folder, _ in folder.deletingLastPathComponent() }
        let page = root.appendingPathComponent("docs/observe-protocol.md")
        let text = try String(contentsOf: page, encoding: .utf8)
        let rules = try #require(Self.blocks("observe rules", of: text).first).lines.joined(separator: "\n")
        return (try RuleSet(parsing: rules), Self.blocks(kind, of: text))
    }

    @Test func everyConversation_isHeldAsItIsWritten() throws {
        let (rules, conversations) = try Self.page("observe")
        let server = try TestServer { $0.rules = rules }
        #expect(conversations.count > 2)
        for conversation in conversations { try hold(conversation, with: server) }
    }

    @Test func everyConversationOfItsOwnHub_isHeldAsItIsWritten_whileThingsHappen() throws {
        let (rules, conversations) = try Self.page("observe alone")
        #expect(conversations.count == 2)
        for conversation in conversations {
            let clock = FakeClock()
            let end = clock.seconds + 5
            let server = try TestServer(scheduler: clock.scheduler) {
                $0.rules = rules
                $0.tokens = UserUntil(end: end)
            }
            try hold(conversation, with: server, token: Self.token) { event in
                switch event {
                case "(rules are deployed by which nobody may read)": Self.deploy(#"{"rules":{".write":true}}"#, on: server)
                case "(10 seconds have passed since the token's end)": clock.advance(seconds: 16)
                default: Issue.record("nothing is done for \(event)")
                }
            }
        }
    }

    /// Has the form of a signed token; the hub's verifier accepts it as `ana`'s.
    private static let token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbmEifQ.c2ln"

    /// Accepts every token as `ana`'s, until a second of the Unix epoch.
    private struct UserUntil: TokenVerifier {
        let end: Int64

        func verify(_ token: String, _ done: @escaping @Sendable (Result<Identity, Failure>) -> Void) {
            done(.success(Identity(auth: ["uid": "ana"], expires: end)))
        }
    }

    private static func deploy(_ rules: String, on server: TestServer) {
        let answered = DispatchSemaphore(value: 0)
        server.server.deployRules(Array(rules.utf8), namespace: "test", isDryRun: false) { _ in answered.signal() }
        #expect(answered.wait(timeout: .now() + 20) == .success)
    }

    /// - Parameter happens: runs a line in parentheses.
    private func hold(
        _ conversation: Block, with server: TestServer, token: String = "", happens: (String) throws -> Void = { _ in }
    ) throws {
        var sockets: [String: TestSocket] = [:]
        var epoch = ""
        func socket(_ name: String) throws -> TestSocket {
            if let known = sockets[name] { return known }
            let made = try TestSocket(port: server.port)
            try made.upgrade("/.observe?ns=test")
            sockets[name] = made
            return made
        }
        for line in conversation.lines where !line.isEmpty {
            if line.hasPrefix("(") {
                try happens(line)
                continue
            }
            guard let arrow = line.firstIndex(where: { $0 == "→" || $0 == "←" }) else {
                Issue.record("line \(conversation.line): \(line)")
                return
            }
            let name = String(line[..<arrow])
            let message = line[line.index(after: arrow)...].trimmingCharacters(in: .whitespaces)
            if line[arrow] == "→" {
                let said = message.replacingOccurrences(of: "\"epoch\":\"…\"", with: "\"epoch\":\"\(epoch)\"")
                    .replacingOccurrences(of: "\"token\":\"…\"", with: "\"token\":\"\(token)\"")
                if message == "close" { sockets[name] = nil } else { try socket(name).sendText(said) }
            } else if message.hasPrefix("close ") {
                #expect(try socket(name).next() == .close(UInt16(message.dropFirst(6))), "line \(conversation.line)")
                sockets[name] = nil
            } else {
                let told = try socket(name).text()
                #expect(Self.isMeant(told, by: message), "line \(conversation.line): \(told)\nfor \(message)")
                if case .string(let text)? = try? Node(json: told).node(at: "ok/epoch") { epoch = text.string }
            }
        }
        // The hub sends no further messages.
        for (name, socket) in sockets {
            try socket.sendText(#"{"id":999999,"op":"ping"}"#)
            #expect(try socket.text() == #"{"id":999999,"ok":{}}"#, "line \(conversation.line), connection \(name)")
        }
    }
}
