import DispatchNet
import Synchronization

/// A minimal mail server on a free port of this machine, with answers chosen by the test.
final class SMTPTestServer: Sendable {
    /// The commands and messages of one client.
    struct Call: Sendable {
        var commands: [String] = []
        /// Messages as received, with dots unstuffed.
        var messages: [String] = []
    }

    private let group: EventLoopGroup
    private let listener: Listener
    private let record = Record()
    var port: Int { Int(listener.port) }
    var all: [Call] { record.calls.withLock { $0 } }
    var messages: [String] { all.flatMap(\.messages) }
    var commands: [String] { all.flatMap(\.commands) }

    /// - Parameters:
    ///   - offers: lines of the answer to EHLO.
    ///   - answer: the reply to a verb instead of success, the first time (0), the second, …; nil: success.
    init(
        tls: TLSServer? = nil, offers: [String] = ["AUTH PLAIN"], answer: @escaping @Sendable (String, Int) -> String? = { _, _ in nil }
    ) throws {
        group = try EventLoopGroup(count: 1)
        listener = try Listener.bind(host: "127.0.0.1", port: 0)
        let counts = Counts()
        listener.start(on: group, tls: tls) { [record] connection in
            let index = record.calls.withLock { $0.append(Call()); return $0.count - 1 }
            return SMTPTestSession(connection, offers, { answer($0, counts.next($0)) }) { change in record.calls.withLock { change(&$0[index]) } }
        }
    }

    deinit { group.shutdown(graceMs: 0) {} }

    private final class Record: Sendable {
        let calls = Mutex<[Call]>([])
    }

    private final class Counts: Sendable {
        private let seen = Mutex<[String: Int]>([:])
        func next(_ verb: String) -> Int { seen.withLock { $0[verb, default: 0] += 1; return $0[verb, default: 1] - 1 } }
    }

    private final class SMTPTestSession: ConnectionHandler {
        private enum State { case command, password, message }

        private let connection: Connection
        private let offers: [String]
        private let answer: (String) -> String?
        private let note: ((inout Call) -> Void) -> Void
        private var state = State.command
        private var buffer: [UInt8] = []
        private var message: [String] = []

        init(
            _ connection: Connection, _ offers: [String], _ answer: @escaping (String) -> String?,
            _ note: @escaping ((inout Call) -> Void) -> Void
        ) {
            self.connection = connection
            self.offers = offers
            self.answer = answer
            self.note = note
            // After the handler has been created: the connection receives bytes from then on.
            connection.loop.execute { [connection] in connection.send(Array("220 test\r\n".utf8)) }
        }

        func received(_ bytes: UnsafeMutableRawBufferPointer) {
            buffer += bytes
            while let end = buffer.firstIndex(of: 10) {
                let line = String(decoding: buffer[..<end], as: UTF8.self)
                buffer.removeFirst(end + 1)
                handle(line.hasSuffix("\r") ? String(line.dropLast()) : line)
            }
        }

        private func handle(_ line: String) {
            switch state {
            case .message where line == ".":
                let text = message.joined(separator: "\n")
                (state, message) = (.command, [])
                let refusal = answer("END")
                if refusal == nil { note { $0.messages.append(text) } }
                say(refusal ?? "250 taken")
            case .message: message.append(line.hasPrefix(".") ? String(line.dropFirst()) : line)
            case .password:
                note { $0.commands.append(line) }
                state = .command
                say(answer("PASSWORD") ?? "235 welcome")
            case .command:
                note { $0.commands.append(line) }
                let verb = line.prefix { $0 != " " }.uppercased()
                if let refusal = answer(verb) { return say(refusal) }
                switch verb {
                case "EHLO": say(
                    (["test"] + offers).enumerated().map { "250\($0 == offers.count ? " " : "-")\($1)" }.joined(separator: "\r\n"))
                case "AUTH" where line.split(separator: " ").count == 2: state = .password; say("334 ")
                case "AUTH": say(answer("PASSWORD") ?? "235 welcome")
                case "DATA": state = .message; say("354 go on")
                case "QUIT": say("221 bye"); connection.close(.finished)
                default: say("250 ok")
                }
            }
        }

        private func say(_ line: String) { connection.send(Array((line + "\r\n").utf8)) }

        func ended(_ reason: CloseReason) {}
    }
}
