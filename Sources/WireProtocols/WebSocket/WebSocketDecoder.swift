/// Decodes the bytes of one WebSocket connection into messages (RFC 6455 §5), for either end.
///
/// ```
///           ┌──────────── whole frame in this read: no copy, no allocation ────────────┐
/// bytes ──► header ──► payload (unmasked in place) ──► data:       collected until FIN ──► event
///    ▲                                                 compressed: inflated until FIN  ──► event
///    │                                                 control:    collected (≤ 125)   ──► event
///    └── a header split by the end of a read is buffered (≤ 14 bytes)
/// ```
/// Limits and UTF-8 are checked before a byte is buffered; those of a compressed message while it is inflated.
///
/// With `inlineBytes`, a larger message is delivered as `large`, in its own buffer, and a compressed one is inflated only once complete. Until
/// then only its compressed bytes are buffered, afterwards at most `inlineBytes`. All input after `.close` or `.failure` is ignored. One
/// decoder reads one connection: a copy would share the state of decompression.
public struct WebSocketDecoder: Sendable {
    public enum Role: Sendable {
        /// Reads frames from clients: every frame must be masked.
        case server
        /// Reads frames from servers: no frame may be masked.
        case client
    }

    enum State {
        /// Between frames, or inside a header with `headerCount` bytes in `heldHeader`.
        case header
        /// Inside the payload of `frame`, with `payloadRead` bytes received.
        case payload
        /// Closed or failed: further bytes are ignored.
        case ended
    }

    public let role: Role
    /// The maximum size of one message, with fragments joined. A longer one fails with 1009 when its header arrives.
    public let maxMessageBytes: Int
    /// The most empty continuation frames of one message: each costs as much as a small one.
    public static let mostEmptyFragments = 1_000
    /// The size of the largest message delivered as `text` or `binary`.
    public let inlineBytes: Int
    /// Whether compressed messages are inflated only once complete.
    let inflatesWhole: Bool

    var state = State.header
    var heldHeader = InlineArray<14, UInt8>(repeating: 0)
    var headerCount = 0
    var frame = WebSocketFrameHeader()
    var payloadRead = 0
    /// The message being collected in `message`, from its first byte or first fragment on.
    var openMessage: OpenMessage?
    var message: [UInt8] = []
    /// Empty continuation frames of the open message.
    var emptyFragments = 0
    var control: [UInt8] = []
    var utf8 = UTF8Validator()
    /// Nil if no compression was negotiated.
    var inflater: Inflater?
    /// The work left in this call of `receive`.
    var workLeft = 0

    struct OpenMessage {
        var opcode: WebSocketOpcode
        var isCompressed: Bool
    }

    /// - Parameters:
    ///   - deflate: the negotiated compression; nil refuses compressed messages.
    ///   - inlineBytes: larger messages are delivered as `WebSocketEvent.large`. Default: unlimited.
    public init(role: Role, maxMessageBytes: Int, deflate: DeflateAgreement? = nil, inlineBytes: Int = .max) {
        self.role = role
        self.maxMessageBytes = maxMessageBytes
        self.inlineBytes = inlineBytes
        let takesOverContext = deflate.map { (role == .server ? $0.client : $0.server).takesOverContext }
        inflater = takesOverContext.map { Inflater(takesOverContext: $0) }
        // With context takeover a message must be inflated before the next one.
        inflatesWhole = inlineBytes < .max && takesOverContext == false
    }

    /// True after `.close` or `.failure`: further bytes are ignored.
    public var hasEnded: Bool {
        if case .ended = state { true } else { false }
    }

    /// Whether a decompressor is allocated: about 42 KiB, see `DeflateAgreement.Direction.takesOverContext`.
    public var holdsInflater: Bool { inflater?.isAllocated ?? false }

    /// Bytes buffered for an incomplete message.
    public var bufferedBytes: Int { message.count + control.count + headerCount }

    /// Whether a message or frame is incomplete.
    public var isInsideMessage: Bool {
        if case .header = state { openMessage != nil || headerCount > 0 } else { !hasEnded }
    }
    /// Payload bytes received of the open message.
    public internal(set) var openBytes = 0
    /// Number of complete messages, modulo 2³².
    public internal(set) var messages: UInt32 = 0

    /// Consumes all bytes, unmasking them in place. A message inside `bytes` is delivered as a slice of it; one that spans reads is collected.
    /// Event pointers are valid only during the call of `handle`. O(n).
    public mutating func receive(_ bytes: UnsafeMutableRawBufferPointer, _ handle: (WebSocketEvent) -> Void) {
        var at = 0
        repeat { at += receive(UnsafeMutableRawBufferPointer(rebasing: bytes[at...]), work: .max, handle) } while at < bytes.count
    }

    /// Consumes bytes until the work is used up.
    /// - Parameter work: bytes of delivered messages, plus `eventWork` per event. The last event may exceed it; a `large` event ends the call.
    /// - Returns: the number of bytes consumed. The caller passes the unchanged rest again, before newer bytes.
    public mutating func receive(_ bytes: UnsafeMutableRawBufferPointer, work: Int, _ handle: (WebSocketEvent) -> Void) -> Int {
        var at = 0
        workLeft = work
        while workLeft > 0 {
            switch state {
            case .ended:
                return bytes.count
            case .header:
                if at == bytes.count { return at }
                guard readHeader(bytes, &at, handle) else { return bytes.count }
            case .payload:
                if at == bytes.count && payloadRead < frame.length { return at }
                readPayload(bytes, &at, handle)
            }
        }
        return hasEnded ? bytes.count : at
    }

    /// The work of an event in addition to its bytes.
    public static let eventWork = 512

    // MARK: End

    mutating func fail(_ error: WebSocketError, _ handle: (WebSocketEvent) -> Void) {
        end()
        handle(.failure(error))
    }

    mutating func end() {
        state = .ended
        message = []
        control = []
        headerCount = 0
        openMessage = nil
        openBytes = 0
        inflater = nil
    }
}
