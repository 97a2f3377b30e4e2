import HubServer
import HubEngine
import JSONTree
import SecurityRules
import TestHub
import Testing
import WireProtocols

/// An SDK on a real socket. Its received messages are recorded as lines:
///
///     d a/b {"x":1}       m a {"b/c":1,"d":null}       d#7 a 1 (tag 7)       c a [{"l":1}]       ac {"s":…,"d":…}
///     ok "" | ok {} | permission_denied Permission denied                                        the answer to a request
final class Peer {
    let socket: TestSocket
    let hello: Node
    private var number: Int64 = 0

    var session: String { if case .string(let id) = hello.node(at: "d/d/s") { id.string } else { "" } }

    init(_ server: TestServer, _ query: String = "v=5&ns=test", host: String = "localhost:9000") throws {
        (socket, hello) = try server.realtime(query, host: host)
    }

    /// Sends a request without waiting.
    /// - Returns: its number.
    @discardableResult
    func send(_ action: String, _ body: String) throws -> Int64 {
        number += 1
        try socket.sendText(#"{"t":"d","d":{"r":\#(number),"a":"\#(action)","b":\#(body)}}"#)
        return number
    }

    /// All lines up to and including the answer.
    @discardableResult
    func ask(_ action: String, _ body: String) throws -> [String] {
        let asked = try send(action, body)
        var lines: [String] = []
        while true {
            let (line, answered) = try Self.line(try message())
            lines.append(line)
            if let answered {
                #expect(answered == asked)
                return lines
            }
        }
    }

    /// The pushes so far: a request sent after them marks the end.
    func pushes() throws -> [String] { try ask("s", #"{"c":{}}"#).dropLast() }

    /// The next message, chunks joined.
    func message() throws -> String {
        let text = try socket.text()
        guard text.utf8.count <= 6, let count = Int(text) else { return text }
        return try (0..<count).map { _ in try socket.text() }.joined()
    }

    func line() throws -> String { try Self.line(try message()).line }

    private static func line(_ message: String) throws -> (line: String, answered: Int64?) {
        let envelope = try #require(try RawObject(message)["d"]).object()
        let body = try #require(envelope["b"]).object()
        if let number = envelope["r"] {
            let status = body["s"]?.string ?? ""
            let data = body["d"] ?? RawJSON(text: "")
            return ("\(status) \(status == "ok" ? data.text : data.string)", Int64(number.text))
        }
        let action = envelope["a"]?.string ?? "?"
        let path = body["p"]?.string ?? "-"
        switch action {
        case "d", "m", "rm": return ("\(action)\(body["t"].map { "#\($0.text)" } ?? "") \(path) \(body["d"]?.text ?? "-")", nil)
        case "c": return ("c \(path)\(body["q"].map { " \($0.text)" } ?? "")", nil)
        default: return ("\(action) \(envelope["b"]?.text ?? "")", nil)
        }
    }

    // MARK: The usual requests

    @discardableResult func put(_ path: String, _ json: String) throws -> [String] { try ask("p", #"{"p":"\#(path)","d":\#(json)}"#) }
    @discardableResult func put(_ path: String, _ json: String, if hash: String) throws -> [String] {
        try ask("p", #"{"p":"\#(path)","d":\#(json),"h":"\#(hash)"}"#)
    }
    @discardableResult func merge(_ path: String, _ json: String) throws -> [String] { try ask("m", #"{"p":"\#(path)","d":\#(json)}"#) }
    @discardableResult func listen(_ path: String, hash: String = "") throws -> [String] {
        try ask("q", #"{"p":"\#(path)","h":"\#(hash)"}"#)
    }
    @discardableResult func listen(_ path: String, _ query: String, tag: Int, hash: String = "") throws -> [String] {
        try ask("q", #"{"p":"\#(path)","q":\#(query),"t":\#(tag),"h":"\#(hash)"}"#)
    }
    func get(_ path: String, _ query: String = "{}") throws -> String { try ask("g", #"{"p":"\#(path)","q":\#(query)}"#).last ?? "" }
    /// The keys that a query selects, in the order of the answer (key order).
    func keys(_ path: String, _ query: String) throws -> [String] {
        let answer = try get(path, query)
        guard answer.hasPrefix("ok ") else { return [answer] }
        return try Node(json: String(answer.dropFirst(3))).children.map(\.key.string)
    }
    func signIn(_ uid: String) throws { #expect(try ask("auth", #"{"cred":"\#(Token.mock(uid))"}"#).last?.hasPrefix("ok") == true) }
    func signInAsOwner() throws { #expect(try ask("gauth", #"{"cred":"owner"}"#).last?.hasPrefix("ok") == true) }
}

/// Tokens as the SDKs send them.
enum Token {
    /// An unsigned token (contract §8.1).
    static func mock(_ uid: String, extra: String = "") -> String {
        "\(base64(#"{"alg":"none","typ":"JWT"}"#)).\(base64(#"{"sub":"\#(uid)","iat":0,"exp":3600\#(extra)}"#))."
    }

    /// A token that only a verifier can judge.
    static func signed(_ uid: String, session: String? = nil) -> String {
        let session = session.map { #","sid":"\#($0)""# } ?? ""
        return "\(base64(#"{"alg":"RS256"}"#)).\(base64(#"{"sub":"\#(uid)"\#(session)}"#)).c2ln"
    }

    private static func base64(_ text: String) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
        var out = ""
        var (bits, held) = (0, 0)
        for byte in text.utf8 {
            (bits, held) = (bits << 8 | Int(byte), held + 8)
            while held >= 6 {
                held -= 6
                out.append(alphabet[bits >> held & 63])
            }
            bits &= (1 << held) - 1
        }
        if held > 0 { out.append(alphabet[bits << (6 - held) & 63]) }
        return out
    }
}

/// Answers checks of signed tokens on the test's command.
final class ManualVerifier: TokenVerifier, Sendable {
    private let answer: @Sendable (String) -> Result<Identity, Failure>
    private let gate: Gate?

    /// - Parameter gate: holds every answer until it opens.
    init(gate: Gate? = nil, _ answer: @escaping @Sendable (String) -> Result<Identity, Failure>) {
        self.answer = answer
        self.gate = gate
    }

    func verify(_ token: String, _ done: @escaping @Sendable (Result<Identity, Failure>) -> Void) {
        guard let gate else { return done(answer(token)) }
        gate.whenOpen { [answer] in done(answer(token)) }
    }
}
