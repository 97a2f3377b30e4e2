import Foundation
import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing

/// The conversations of docs/observe-protocol.md, held with a hub as they stand there: every line of the hub is compared.
///
///     <!-- tested: observe rules -->   the rules of the hub
///     <!-- tested: observe -->         a conversation: `→` the client says or does (`close`), `←` the hub says; `2→` and `2←` over a second connection
///
/// They are one after the other, with one hub. `…` stands for any text; an epoch that is sent back is the one that was told.
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

    @Test func everyConversation_isHeldAsItIsWritten() throws {
        let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("docs/observe-protocol.md")
        let text = try String(contentsOf: page, encoding: .utf8)
        let rules = try #require(Self.blocks("observe rules", of: text).first).lines.joined(separator: "\n")
        let parsed = try RuleSet(parsing: rules)
        let server = try TestServer { $0.rules = parsed }
        let conversations = Self.blocks("observe", of: text)
        #expect(conversations.count > 2)
        for conversation in conversations {
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
                guard let arrow = line.firstIndex(where: { $0 == "→" || $0 == "←" }) else {
                    Issue.record("line \(conversation.line): \(line)")
                    return
                }
                let name = String(line[..<arrow])
                let message = line[line.index(after: arrow)...].trimmingCharacters(in: .whitespaces)
                if line[arrow] == "→" {
                    let said = message.replacingOccurrences(of: "\"epoch\":\"…\"", with: "\"epoch\":\"\(epoch)\"")
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
            // Nothing is said that does not stand there.
            for (name, socket) in sockets {
                try socket.sendText(#"{"id":999999,"op":"ping"}"#)
                #expect(try socket.text() == #"{"id":999999,"ok":{}}"#, "line \(conversation.line), connection \(name)")
            }
        }
    }
}
