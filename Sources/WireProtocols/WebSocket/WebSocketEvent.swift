/// An event of a WebSocket connection. Pointers are valid only during the call that delivers the event: copy data to keep it.
public enum WebSocketEvent {
    /// A complete text message, valid UTF-8, fragments joined.
    case text(UnsafeRawBufferPointer)
    /// A complete binary message, fragments joined.
    case binary(UnsafeRawBufferPointer)
    /// A complete message above the decoder's `inlineBytes`.
    case large(WebSocketLargeMessage)
    /// Respond with a pong of the same payload (≤ 125 bytes; RFC 6455 §5.5.2).
    case ping(UnsafeRawBufferPointer)
    /// The response to a ping, or an unsolicited pong (RFC 6455 §5.5.3).
    case pong(UnsafeRawBufferPointer)
    /// The peer closes: echo the code and end the connection. `code` is nil if the frame was empty (RFC 6455 §7.1.5).
    case close(code: UInt16?, reason: UnsafeRawBufferPointer)
    /// The peer violated the protocol: send a close frame with `error.closeCode` and end the connection.
    case failure(WebSocketError)

    /// The frame that RFC 6455 requires in response: a pong to a ping (§5.5.2), a close frame to a close frame (§5.5.1) and to a failure
    /// (§7.1.7). Nil for other events. Clients pass a fresh random mask.
    public func answer(mask: WebSocketMask? = nil) -> [UInt8]? {
        switch self {
        case .text, .binary, .large, .pong: nil
        case .ping(let payload): WebSocketFrame.pong(echoing: payload, mask: mask)
        case .close(let code, _): WebSocketFrame.close(code, mask: mask)
        case .failure(let error): WebSocketFrame.close(error, mask: mask)
        }
    }

    /// True for the last event of a connection, `close` or `failure`: send the response, then end the connection (§7.1.1).
    public var isLast: Bool {
        switch self {
        case .close, .failure: true
        case .text, .binary, .large, .ping, .pong: false
        }
    }
}

/// Why a WebSocket connection must be failed (RFC 6455 §7.1.7).
public enum WebSocketError: Error, Sendable, Hashable {
    /// A reserved bit was set without a negotiated extension for it (§5.2, RFC 7692 §6.1).
    case reservedBits
    /// An opcode between 3 and 7 or above 10 (§5.2).
    case unknownOpcode
    /// A client frame without a mask, or a server frame with one (§5.1).
    case wrongMasking
    /// A ping, pong or close of more than 125 bytes (§5.5).
    case longControlFrame
    /// A ping, pong or close without FIN (§5.5).
    case fragmentedControlFrame
    /// A continuation frame while no message is open (§5.4).
    case unexpectedContinuation
    /// A new data message before the open one ended (§5.4).
    case unfinishedMessage
    /// A length that is not in its shortest form, or a 64-bit one with the highest bit set (§5.2).
    case impossibleLength
    /// A close frame of one byte, or with a code that must not be sent (§5.5.1, §7.4).
    case badCloseCode
    /// A text message or a close reason that is not UTF-8 (§8.1).
    case invalidUTF8
    /// The payload of a compressed message is not DEFLATE data, or ends inside a block (RFC 7692 §7.2.2).
    case badCompression
    /// The message would exceed the receiver's limit, possibly during decompression (§7.4.1, 1009).
    case messageTooBig
    /// A message has more than `WebSocketDecoder.mostEmptyFragments` empty fragments (§7.4.1, 1008).
    case emptyFragments

    /// The status code for the close frame: 1002, 1007, 1008 or 1009.
    public var closeCode: UInt16 {
        switch self {
        case .invalidUTF8, .badCompression: 1007
        case .emptyFragments: 1008
        case .messageTooBig: 1009
        default: 1002
        }
    }

    /// A plain sentence for the close frame's reason and the log; at most 123 bytes.
    public var reason: String {
        switch self {
        case .reservedBits: "reserved bit set without an extension for it"
        case .unknownOpcode: "unknown opcode"
        case .wrongMasking: "frame masked the wrong way for its direction"
        case .longControlFrame: "control frame longer than 125 bytes"
        case .fragmentedControlFrame: "fragmented control frame"
        case .unexpectedContinuation: "continuation without a message"
        case .unfinishedMessage: "new message before the last one ended"
        case .impossibleLength: "payload length out of range or not in its shortest form"
        case .badCloseCode: "invalid close code"
        case .invalidUTF8: "text is not UTF-8"
        case .badCompression: "compressed payload is broken"
        case .messageTooBig: "message too big"
        case .emptyFragments: "too many empty fragments in one message"
        }
    }
}

/// The opcodes of RFC 6455 §5.2.
public enum WebSocketOpcode: UInt8, Sendable {
    case continuation = 0x0
    case text = 0x1
    case binary = 0x2
    case close = 0x8
    case ping = 0x9
    case pong = 0xA

    var isControl: Bool { rawValue & 0x8 != 0 }
}

/// Which close codes may appear in a frame (RFC 6455 §7.4 and the IANA registry).
public enum WebSocketCloseCode {
    public static let normal: UInt16 = 1000
    public static let goingAway: UInt16 = 1001
    public static let protocolError: UInt16 = 1002
    public static let unsupportedData: UInt16 = 1003
    public static let invalidPayload: UInt16 = 1007
    public static let policyViolation: UInt16 = 1008
    public static let messageTooBig: UInt16 = 1009
    public static let internalError: UInt16 = 1011
    public static let serviceRestart: UInt16 = 1012
    public static let tryAgainLater: UInt16 = 1013
    /// "Unauthorized" of IANA's WebSocket Close Code Number Registry.
    public static let unauthorized: UInt16 = 3000

    /// 1004, 1005, 1006 and 1015 are reserved for local use; 1016–2999 are unassigned; 3000–4999 belong to applications.
    public static func maySend(_ code: UInt16) -> Bool {
        switch code {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }
}
