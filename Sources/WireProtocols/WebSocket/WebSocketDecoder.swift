/// Turns the bytes of one WebSocket connection into messages (RFC 6455 §5), for either end.
///
/// ```
///           ┌──────────── whole frame in this read: no copy, no allocation ────────────┐
/// bytes ──► header ──► payload (unmasked in place) ──► data:       collected until FIN ──► event
///    ▲                                                 compressed: inflated until FIN  ──► event
///    │                                                 control:    collected (≤ 125)   ──► event
///    └── a header cut by the end of a read is held (≤ 14 bytes)
/// ```
/// Limits and UTF-8 are checked before a byte is kept, those of a compressed message as it is inflated.
///
/// With `inlineBytes` a message above them is handed over as `large`, in one piece of its own, and a compressed one is inflated
/// when all of it has come: until then only what was sent is held, afterwards no more than `inlineBytes`. After `.close` or
/// `.failure` everything is ignored. One decoder reads one connection: a copy would share the state of decompression.
public struct WebSocketDecoder: Sendable {
    public enum Role: Sendable {
        /// Reads what clients send: every frame must be masked.
        case server
        /// Reads what servers send: no frame may be masked.
        case client
    }

    private enum State {
        /// Between frames or inside a header, of which `held` bytes are in `heldHeader`.
        case header
        /// Inside the payload of `frame`, `taken` bytes of which have passed.
        case payload
        /// Closed or failed: no byte is decoded any more.
        case ended
    }

    public let role: Role
    /// Greatest size of one message, fragments together. A longer one fails with 1009 when its header arrives.
    public let maxMessageBytes: Int
    /// Empty continuations that one message may have: each costs as much as a small one and brings nothing nearer its end.
    public static let mostEmptyFragments = 1_000
    /// Bytes of the largest message that is handed over in place.
    public let inlineBytes: Int
    /// Whether compressed messages are inflated when they are whole.
    private let inflatesWhole: Bool

    private var state = State.header
    private var heldHeader = InlineArray<14, UInt8>(repeating: 0)
    private var held = 0
    private var frame = WebSocketFrameHeader()
    private var taken = 0
    /// The message whose payload is being collected in `message`: from its first byte, or from its first fragment on.
    private var openMessage: OpenMessage?
    private var message: [UInt8] = []
    /// Continuations of the open message without a byte.
    private var emptyFragments = 0
    private var control: [UInt8] = []
    private var utf8 = UTF8Validator()
    /// Nil when no compression was agreed on.
    private var inflater: Inflater?
    /// What may still be done in this call of `receive`.
    private var workLeft = 0

    private struct OpenMessage {
        var opcode: WebSocketOpcode
        var isCompressed: Bool
    }

    /// - Parameters:
    ///   - deflate: what the handshake agreed on; nil refuses compressed messages.
    ///   - inlineBytes: larger messages are handed over as `WebSocketEvent.large`. Default: none are.
    public init(role: Role, maxMessageBytes: Int, deflate: DeflateAgreement? = nil, inlineBytes: Int = .max) {
        self.role = role
        self.maxMessageBytes = maxMessageBytes
        self.inlineBytes = inlineBytes
        let takesOverContext = deflate.map { (role == .server ? $0.client : $0.server).takesOverContext }
        inflater = takesOverContext.map { Inflater(takesOverContext: $0) }
        // What refers to earlier messages can only be inflated behind them.
        inflatesWhole = inlineBytes < .max && takesOverContext == false
    }

    /// True after `.close` or `.failure`: further bytes are ignored.
    public var hasEnded: Bool {
        if case .ended = state { true } else { false }
    }

    /// Whether a decompressor is in memory: about 42 KiB, see `DeflateAgreement.Direction.takesOverContext`.
    public var holdsInflater: Bool { inflater?.isAllocated ?? false }

    /// Bytes held for a message that is not complete yet.
    public var bufferedBytes: Int { message.count + control.count + held }

    /// Whether a message or frame has begun and is not complete.
    public var isInsideMessage: Bool {
        if case .header = state { openMessage != nil || held > 0 } else { !hasEnded }
    }
    /// Payload bytes that have come of the open message.
    public private(set) var openBytes = 0
    /// Messages that were complete, modulo 2³².
    public private(set) var messages: UInt32 = 0

    /// Consumes all bytes, unmasking them in place. A message wholly inside `bytes` is handed over as a slice of it;
    /// one that spans reads is collected. Event pointers are valid only during the call of `handle`. O(n).
    public mutating func receive(_ bytes: UnsafeMutableRawBufferPointer, _ handle: (WebSocketEvent) -> Void) {
        var at = 0
        repeat { at += receive(UnsafeMutableRawBufferPointer(rebasing: bytes[at...]), work: .max, handle) } while at < bytes.count
    }

    /// The same, until there was so much to do: who has sent more waits for the next turn.
    /// - Parameter work: bytes of messages, as they are handed over, and `eventWork` for each event. One event may go over it, and a
    ///   `large` one is the last.
    /// - Returns: the bytes consumed: the others must be given again, first, and were not changed.
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
                if at == bytes.count && taken < frame.length { return at }
                readPayload(bytes, &at, handle)
            }
        }
        return hasEnded ? bytes.count : at
    }

    /// What an event counts as beside its bytes.
    public static let eventWork = 512

    // MARK: Header

    /// False when the header is not complete yet (then all bytes are consumed) or was refused.
    private mutating func readHeader(
        _ bytes: UnsafeMutableRawBufferPointer, _ at: inout Int, _ handle: (WebSocketEvent) -> Void
    ) -> Bool {
        let mayCompress = inflater != nil
        do throws(WebSocketError) {
            if held == 0 {
                let rest = UnsafeRawBufferPointer(rebasing: bytes[at...])
                guard let size = try frame.parse(rest, role: role, mayCompress: mayCompress) else {
                    for byte in rest { heldHeader[held] = byte; held += 1 }
                    at = bytes.count
                    return false
                }
                at += size
            } else {
                var isComplete = false
                while !isComplete {
                    guard at < bytes.count else { return false }
                    heldHeader[held] = bytes[at]
                    held += 1
                    at += 1
                    let count = held
                    let span = heldHeader.span
                    isComplete = try span.withUnsafeBytes { header throws(WebSocketError) in
                        try frame.parse(UnsafeRawBufferPointer(rebasing: header[..<count]), role: role, mayCompress: mayCompress) != nil
                    }
                }
                held = 0
            }
            try admitFrame()
            return true
        } catch {
            fail(error, handle)
            return false
        }
    }

    /// Checks the new frame against the open message and the limit, before any of its payload is kept.
    private mutating func admitFrame() throws(WebSocketError) {
        taken = 0
        state = .payload
        if frame.opcode.isControl { return }
        if frame.opcode == .continuation {
            if openMessage == nil { throw .unexpectedContinuation }
            if frame.length == 0 {
                emptyFragments += 1
                if emptyFragments > Self.mostEmptyFragments { throw .emptyFragments }
            }
        } else if openMessage != nil {
            throw .unfinishedMessage
        }
        // How long a compressed message becomes is seen while it is inflated. What does not compress grows by 5 bytes in 16 KiB.
        if openMessage?.isCompressed ?? frame.isCompressed {
            if inflatesWhole, frame.length > maxMessageBytes + maxMessageBytes / 1024 + 64 - message.count { throw .messageTooBig }
            return
        }
        if frame.length > maxMessageBytes - message.count { throw .messageTooBig }
    }

    // MARK: Payload

    private mutating func readPayload(
        _ bytes: UnsafeMutableRawBufferPointer, _ at: inout Int, _ handle: (WebSocketEvent) -> Void
    ) {
        let size = min(frame.length - taken, bytes.count - at)
        let piece = UnsafeMutableRawBufferPointer(rebasing: bytes[at..<at + size])
        if let mask = frame.mask { mask.apply(to: piece, offset: taken) }
        let isWhole = size == frame.length
        at += size
        taken += size
        let payload = UnsafeRawBufferPointer(piece)
        if frame.opcode.isControl {
            takeControl(payload, isWhole: isWhole, handle)
        } else {
            takeData(payload, isWhole: isWhole, handle)
        }
    }

    private mutating func takeControl(
        _ piece: UnsafeRawBufferPointer, isWhole: Bool, _ handle: (WebSocketEvent) -> Void
    ) {
        if isWhole {
            finishControl(piece, handle)
        } else {
            control.append(contentsOf: piece)
            if taken < frame.length { return }
            let payload = control
            control = []
            payload.withUnsafeBytes { finishControl($0, handle) }
        }
    }

    private mutating func finishControl(_ payload: UnsafeRawBufferPointer, _ handle: (WebSocketEvent) -> Void) {
        state = .header
        workLeft -= Self.eventWork
        switch frame.opcode {
        case .ping:
            handle(.ping(payload))
        case .pong:
            handle(.pong(payload))
        default:
            finishClose(payload, handle)
        }
    }

    /// RFC 6455 §5.5.1: nothing, or a code that may be sent followed by UTF-8.
    private mutating func finishClose(_ payload: UnsafeRawBufferPointer, _ handle: (WebSocketEvent) -> Void) {
        if payload.isEmpty {
            end()
            handle(.close(code: nil, reason: payload))
            return
        }
        guard payload.count >= 2 else { return fail(.badCloseCode, handle) }
        let code = UInt16(payload[0]) << 8 | UInt16(payload[1])
        let reason = UnsafeRawBufferPointer(rebasing: payload[2...])
        guard WebSocketCloseCode.maySend(code) else { return fail(.badCloseCode, handle) }
        guard UTF8Validator.isValid(reason) else { return fail(.invalidUTF8, handle) }
        end()
        handle(.close(code: code, reason: reason))
    }

    private mutating func takeData(
        _ piece: UnsafeRawBufferPointer, isWhole: Bool, _ handle: (WebSocketEvent) -> Void
    ) {
        let open = openMessage ?? OpenMessage(opcode: frame.opcode, isCompressed: frame.isCompressed)
        let isLast = taken == frame.length && frame.isFinal
        openBytes &+= piece.count
        do throws(WebSocketError) {
            if open.isCompressed {
                if inflatesWhole {
                    return try takeCompressed(piece, open, isAlone: isLast && isWhole && openMessage == nil, isLast: isLast, handle)
                }
                openMessage = open
                try inflate(piece, isLast: isLast)
            } else {
                if open.opcode == .text { try checkText(piece) }
                if isLast && isWhole && openMessage == nil {
                    if open.opcode == .text { try checkTextEnd() }
                    finishMessage()
                    workLeft -= piece.count
                    handle(open.opcode == .text ? .text(piece) : .binary(piece))
                    return
                }
                openMessage = open
                if message.isEmpty { message.reserveCapacity(min(frame.length, Self.firstReserve)) }
                message.append(contentsOf: piece)
            }
            if isLast && open.opcode == .text { try checkTextEnd() }
        } catch { return fail(error, handle) }
        if taken < frame.length { return }
        state = .header
        if frame.isFinal {
            // Given up rather than kept for the next one: an idle connection must not hold its largest message.
            let whole = message
            finishMessage()
            if whole.count > inlineBytes { return handle(.large(large(whole, open))) }
            // What was inflated has been counted as it came out.
            if !open.isCompressed { workLeft -= whole.count }
            whole.withUnsafeBytes { handle(open.opcode == .text ? .text($0) : .binary($0)) }
        }
    }

    private mutating func finishMessage() {
        state = .header
        message = []
        openMessage = nil
        openBytes = 0
        emptyFragments = 0
        messages &+= 1
        workLeft -= Self.eventWork
    }

    private mutating func large(_ payload: [UInt8], _ open: OpenMessage) -> WebSocketLargeMessage {
        workLeft = 0
        return WebSocketLargeMessage(
            opcode: open.opcode, payload: payload, isCompressed: open.isCompressed, maxMessageBytes: maxMessageBytes)
    }

    /// Collects a compressed message as it comes and inflates it when it is whole, unless that makes it a large one.
    private mutating func takeCompressed(
        _ piece: UnsafeRawBufferPointer, _ open: OpenMessage, isAlone: Bool, isLast: Bool, _ handle: (WebSocketEvent) -> Void
    ) throws(WebSocketError) {
        guard isLast else {
            openMessage = open
            message.append(contentsOf: piece)
            if taken == frame.length { state = .header }
            return
        }
        if !isAlone { message.append(contentsOf: piece) }
        let compressed = message
        finishMessage()
        openMessage = open
        var isInline = false
        var failure: WebSocketError?
        if isAlone {
            isInline = try inflateInline(piece)
        } else {
            compressed.withUnsafeBytes { bytes in
                do throws(WebSocketError) { isInline = try inflateInline(bytes) } catch { failure = error }
            }
        }
        if let failure { throw failure }
        let whole = message
        message = []
        openMessage = nil
        guard isInline else { return handle(.large(large(isAlone ? Array(piece) : compressed, open))) }
        if open.opcode == .text { try checkTextEnd() }
        whole.withUnsafeBytes { handle(open.opcode == .text ? .text($0) : .binary($0)) }
    }

    /// Inflates a whole message into `message`; false, with nothing kept, when it has more than `inlineBytes`.
    private mutating func inflateInline(_ bytes: UnsafeRawBufferPointer) throws(WebSocketError) -> Bool {
        do throws(WebSocketError) {
            try inflate(bytes, isLast: true)
            return true
        } catch {
            guard error == .messageTooBig, inlineBytes < maxMessageBytes else { throw error }
            message = []
            utf8 = UTF8Validator()
            inflater = Inflater(takesOverContext: false)
            return false
        }
    }

    /// RFC 6455 §8.1: fails at the first byte that cannot be UTF-8, also in the middle of a frame.
    private mutating func checkText(_ piece: UnsafeRawBufferPointer) throws(WebSocketError) {
        guard utf8.consume(piece) else { throw .invalidUTF8 }
    }

    private func checkTextEnd() throws(WebSocketError) {
        guard utf8.isAtBoundary else { throw .invalidUTF8 }
    }

    private mutating func inflate(_ piece: UnsafeRawBufferPointer, isLast: Bool) throws(WebSocketError) {
        guard let inflater else { throw .reservedBits }
        try inflater.inflate(piece) { output throws(WebSocketError) in try collect(inflated: output) }
        if isLast { try inflater.finish { output throws(WebSocketError) in try collect(inflated: output) } }
    }

    /// What came out is checked in the order of its bytes, so that an error does not depend on how they arrived.
    private mutating func collect(inflated output: UnsafeRawBufferPointer) throws(WebSocketError) {
        let maxMessageBytes = inflatesWhole ? min(inlineBytes, maxMessageBytes) : maxMessageBytes
        workLeft -= output.count
        let fitting = UnsafeRawBufferPointer(rebasing: output.prefix(maxMessageBytes - message.count))
        if openMessage?.opcode == .text { try checkText(fitting) }
        if fitting.count < output.count { throw .messageTooBig }
        let size = message.count + fitting.count
        if size > message.capacity { message.reserveCapacity(min(maxMessageBytes, max(size, 2 * message.capacity))) }
        message.append(contentsOf: fitting)
    }

    /// What a header alone may make us allocate; the rest follows the bytes that really arrive.
    private static let firstReserve = 64 * 1024

    // MARK: End

    private mutating func fail(_ error: WebSocketError, _ handle: (WebSocketEvent) -> Void) {
        end()
        handle(.failure(error))
    }

    private mutating func end() {
        state = .ended
        message = []
        control = []
        held = 0
        openMessage = nil
        openBytes = 0
        inflater = nil
    }
}
