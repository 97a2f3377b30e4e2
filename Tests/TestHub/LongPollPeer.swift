package import JSONTree
import Testing

/// A browser's long-polling client (contract §1.8) on two blocking sockets: one holds the poll, the other sends.
package final class LongPollPeer {
    package let server: TestServer
    package let namespace: String
    package let hello: Node
    /// The query items that prove the session.
    package let key: String
    private let sockets: [TestSocket]
    /// The socket whose poll is not answered yet.
    private var held: TestSocket?
    private var isPollHeld = false
    private var serial = 1000
    private var nextSegment = 0
    /// The number of the next answer.
    private var number = 1
    /// Messages in order.
    package private(set) var heard: [Node] = []
    /// Answers that overtook an earlier one.
    private var early: [Int: [Node]] = [:]
    /// The close command: nil inside if it had no number. It counts once everything before it has arrived.
    private var closing: Int??
    package var closed: Int?? { if case .some(.some(let last)) = closing, last >= number { nil } else { closing } }

    package var session: String { if case .string(let id) = hello.node(at: "d/d/s") { id.string } else { "" } }

    package init(_ server: TestServer, namespace: String = "test", query: String = "") throws {
        self.server = server
        self.namespace = namespace
        sockets = [try TestSocket(port: server.port), try TestSocket(port: server.port)]
        let opened = try sockets[0].get("/.lp?start=t&ser=1&cb=3&v=5&ns=\(namespace)\(query)", host: "localhost:9000")
        try #require(opened.status == 200)
        let start = try #require(opened.body.firstRange(of: "pLPCommand('start',\""))
        let parts = opened.body[start.upperBound...].split(separator: "\"", maxSplits: 3)
        key = "id=\(parts[0])&pw=\(parts[2])"
        let first = try Script(String(opened.body[try #require(opened.body.firstRange(of: "pRTLPCB(0,")).lowerBound...]))
        try #require(first.number == 0)
        hello = try #require(first.messages.first)
    }

    /// Polls with messages, and then receives the answer that the older poll gets for that.
    package func poll(_ messages: String...) throws { try poll(segments: messages.flatMap { segments($0) }) }

    package func poll(segments: [String]) throws {
        serial += 1
        let free = try #require(sockets.first { $0 !== held })
        var target = "/.lp?\(key)&ser=\(serial)&ns=\(namespace)"
        for (index, segment) in segments.enumerated() { target += segment.replacing("#", with: String(index)) }
        try free.send("GET \(target) HTTP/1.1\r\nHost: localhost:9000\r\n\r\n")
        let older = held
        held = free
        isPollHeld = false
        guard let older else { return }
        try receive(older)
        // The older poll was answered, so the newer one has arrived; if the newer one came first, both were answered.
        if early.isEmpty { isPollHeld = true } else { try wait() }
    }

    /// Polls until the server is known to hold a poll.
    package func hold() throws {
        repeat { try poll() } while !isPollHeld
    }

    /// Waits for the answer of the held poll; polls if none is held.
    package func wait() throws {
        if held == nil { try poll() }
        let waiting = try #require(held)
        held = nil
        try receive(waiting)
    }

    /// Waits until `count` messages have arrived, and returns all.
    package func messages(_ count: Int) throws -> [Node] {
        while heard.count < count, closed == nil { try wait() }
        try #require(heard.count >= count)
        return heard
    }

    private func receive(_ socket: TestSocket) throws {
        let response = try socket.response()
        try #require(response.status == 200)
        #expect(response.head.lowercased().contains("content-type: application/javascript"))
        #expect(response.head.lowercased().contains("cache-control: no-store"))
        let script = try Script(response.body)
        if let number = script.number {
            // Requests on two connections overtake each other, and so do their answers; each number comes once.
            try #require(number >= self.number && early[number] == nil)
            early[number] = script.messages
            while let next = early.removeValue(forKey: self.number) {
                heard += next
                self.number += 1
            }
        }
        if let command = script.close { closing = command }
    }

    /// The segments of the next message, as query text whose `#` is the index in its request.
    package func segments(_ message: String, pieceLength: Int = 1840) -> [String] {
        let letters = Array(Self.websafeBase64(Array(message.utf8)))
        let starts = Array(stride(from: 0, to: letters.count, by: pieceLength))
        return starts.map { start in
            defer { nextSegment += 1 }
            let piece = String(decoding: letters[start..<min(letters.count, start + pieceLength)], as: UTF8.self)
            return "&seg#=\(nextSegment)&ts#=\(starts.count)&d#=\(piece)"
        }
    }

    private static func websafeBase64(_ bytes: [UInt8]) -> [UInt8] {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        var text: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(bytes.count, start + 3)]
            let bits = group.reduce(0) { $0 << 8 | Int($1) } << (8 * (3 - group.count))
            for place in 0..<4 {
                text.append(place <= group.count ? alphabet[bits >> (18 - 6 * place) & 63] : UInt8(ascii: "."))
            }
        }
        return text
    }

    /// The parsed answer to a poll.
    package struct Script {
        package var number: Int?
        package var messages: [Node] = []
        package var close: Int??

        package init(_ text: String) throws {
            var rest = text[...]
            if rest.hasPrefix("pRTLPCB(") {
                let comma = try #require(rest.firstIndex(of: ","))
                number = Int(rest.dropFirst("pRTLPCB(".count)[..<comma])
                let end = rest.firstRange(of: "]);pLPCommand")?.lowerBound ?? rest.index(rest.endIndex, offsetBy: -3)
                let array = try Node(json: String(rest[rest.index(after: comma)...end]))
                for (_, message) in array.children { messages.append(message) }
                rest = rest[rest.index(end, offsetBy: 3)...]
            }
            guard !rest.isEmpty else { return }
            try #require(rest.hasPrefix("pLPCommand('close'") && rest.hasSuffix(");"))
            close = .some(Int(rest.dropFirst("pLPCommand('close',".count).dropLast(2)))
        }
    }
}
