/// Data frames: messages and their fragments (RFC 6455 §5.4, §5.6), compressed ones included (RFC 7692 §7.2.2).
extension WebSocketDecoder {
    mutating func receiveData(
        _ piece: UnsafeRawBufferPointer, isWhole: Bool, _ handle: (WebSocketEvent) -> Void
    ) {
        let open = openMessage ?? OpenMessage(opcode: frame.opcode, isCompressed: frame.isCompressed)
        let isLast = payloadRead == frame.length && frame.isFinal
        openBytes &+= piece.count
        do throws(WebSocketError) {
            if open.isCompressed {
                if inflatesWhole {
                    return try receiveCompressed(piece, open, isAlone: isLast && isWhole && openMessage == nil, isLast: isLast, handle)
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
                if message.isEmpty { message.reserveCapacity(min(frame.length, Self.initialCapacity)) }
                message.append(contentsOf: piece)
            }
            if isLast && open.opcode == .text { try checkTextEnd() }
        } catch { return fail(error, handle) }
        if payloadRead < frame.length { return }
        state = .header
        if frame.isFinal {
            // The buffer is not reused: an idle connection must not retain its largest message.
            let whole = message
            finishMessage()
            if whole.count > inlineBytes { return handle(.large(large(whole, open))) }
            // `collect` has already charged the inflated bytes.
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

    /// Collects a compressed message, and inflates it once complete. Above `inlineBytes` it is delivered compressed, as `large`.
    private mutating func receiveCompressed(
        _ piece: UnsafeRawBufferPointer, _ open: OpenMessage, isAlone: Bool, isLast: Bool, _ handle: (WebSocketEvent) -> Void
    ) throws(WebSocketError) {
        guard isLast else {
            openMessage = open
            message.append(contentsOf: piece)
            if payloadRead == frame.length { state = .header }
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

    /// Inflates a complete message into `message`; false, with nothing buffered, if it exceeds `inlineBytes`.
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

    /// Fails at the first byte that cannot be UTF-8, even in the middle of a frame (RFC 6455 §8.1).
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

    /// Appends inflated bytes. Checks them in order, so that errors do not depend on how the input was split.
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

    /// The most bytes allocated for a frame's announced length before its payload arrives.
    private static let initialCapacity = 64 * 1024
}
