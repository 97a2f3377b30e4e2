public import DispatchNet
internal import Glibc
internal import JSONTree
public import WireProtocols

/// Why a request failed, or a client is not connected.
public enum ClientError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The hub refuses the request.
    case refused(ObserveFailure)
    /// The connection ended before the answer; the request may have been carried out.
    case connectionLost
    /// No connection could be established.
    case unreachable(String)
    /// An HTTP server answered, but refuses this client (unknown namespace, no hub).
    case notAccepted(status: Int, text: String)
    /// The hub closed the connection with an RFC 6455 code and its reason.
    case dismissed(code: UInt16, reason: String)
    /// The hub's message violates the protocol.
    case badAnswer(String)
    /// A newer `authenticate` came before this one could be sent.
    case superseded
    /// The client was closed.
    case closed

    /// The protocol's code, or `connection_lost` without a connection or after its end, `superseded`, `closed`.
    public var code: String {
        switch self {
        case .refused(let failure): failure.code
        case .superseded: "superseded"
        case .closed: "closed"
        case .connectionLost, .unreachable, .notAccepted, .dismissed, .badAnswer: "connection_lost"
        }
    }

    /// For people: the hub's message, its code, and the rules' own messages to the client.
    public var description: String {
        switch self {
        case .refused(let failure):
            "\(failure.message) (\(failure.code))\(failure.messages.isEmpty ? "" : ": " + failure.messages.joined(separator: " "))"
        case .connectionLost: "The connection was lost before the answer came; the request may have been carried out."
        case .unreachable(let reason): "No connection: \(reason)"
        case .notAccepted(let status, let text):
            "The server did not accept the connection (HTTP \(status))\(text.isEmpty ? "" : ": \(Self.message(of: text))")"
        case .dismissed(let code, let reason): "The hub closed the connection (\(code))\(reason.isEmpty ? "" : ": \(reason)")"
        case .badAnswer(let reason): "The server does not speak the observe protocol: \(reason)"
        case .superseded: "A newer credential took the place of this one."
        case .closed: "The client was closed."
        }
    }

    /// The sentence in `{"error":"…"}`, otherwise the first line of the text. The text may be truncated.
    private static func message(of text: String) -> String {
        var native = text
        let sentence = native.withUTF8 { bytes -> String? in
            var reader = JSONReader(UnsafeRawBufferPointer(bytes))
            guard (try? reader.beginObject()) != nil, (try? reader.nextName()) == "error" else { return nil }
            return try? reader.string()
        }
        return sentence ?? text.split(whereSeparator: \.isNewline).first.map(String.init) ?? ""
    }

    /// The server's sentence for its refusal, without the JSON around it; empty without one.
    public static func reason(_ body: String) -> String { message(of: body) }

    /// A text for people about a failure to connect.
    public static func text(_ error: NetError) -> String {
        switch error {
        case .connectFailed(let address, ECONNREFUSED): "nothing listens on \(address)"
        case .connectFailed(let address, let errno): "\(address): \(String(cString: strerror(errno)))"
        case .unresolved(let host, _): "there is no host named \(host)"
        default: "\(error)"
        }
    }
}
