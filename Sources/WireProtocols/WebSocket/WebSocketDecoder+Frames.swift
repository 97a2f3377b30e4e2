/// Frame headers and payload pieces (RFC 6455 §5.2).
extension WebSocketDecoder {
    /// Reads a header. False if it is invalid or incomplete; an incomplete one consumes all bytes.
    mutating func readHeader(
        _ bytes: UnsafeMutableRawBufferPointer, _ at: inout Int, _ handle: (WebSocketEvent) -> Void
    ) -> Bool {
        let mayCompress = inflater != nil
        do throws(WebSocketError) {
            if headerCount == 0 {
                let rest = UnsafeRawBufferPointer(rebasing: bytes[at...])
                guard let size = try frame.parse(rest, role: role, mayCompress: mayCompress) else {
                    for byte in rest { heldHeader[headerCount] = byte; headerCount += 1 }
                    at = bytes.count
                    return false
                }
                at += size
            } else {
                var isComplete = false
                while !isComplete {
                    guard at < bytes.count else { return false }
                    heldHeader[headerCount] = bytes[at]
                    headerCount += 1
                    at += 1
                    let count = headerCount
                    let span = heldHeader.span
                    isComplete = try span.withUnsafeBytes { header throws(WebSocketError) in
                        try frame.parse(UnsafeRawBufferPointer(rebasing: header[..<count]), role: role, mayCompress: mayCompress) != nil
                    }
                }
                headerCount = 0
            }
            try validateFrame()
            return true
        } catch {
            fail(error, handle)
            return false
        }
    }

    /// Checks a new frame against the open message and the limit, before any of its payload is buffered.
    private mutating func validateFrame() throws(WebSocketError) {
        payloadRead = 0
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
        // The inflated size is checked while inflating. DEFLATE expands incompressible data by 5 bytes per 16 KiB.
        if openMessage?.isCompressed ?? frame.isCompressed {
            if inflatesWhole, frame.length > maxMessageBytes + maxMessageBytes / 1024 + 64 - message.count { throw .messageTooBig }
            return
        }
        if frame.length > maxMessageBytes - message.count { throw .messageTooBig }
    }

    mutating func readPayload(
        _ bytes: UnsafeMutableRawBufferPointer, _ at: inout Int, _ handle: (WebSocketEvent) -> Void
    ) {
        let size = min(frame.length - payloadRead, bytes.count - at)
        let piece = UnsafeMutableRawBufferPointer(rebasing: bytes[at..<at + size])
        if let mask = frame.mask { mask.apply(to: piece, offset: payloadRead) }
        let isWhole = size == frame.length
        at += size
        payloadRead += size
        let payload = UnsafeRawBufferPointer(piece)
        if frame.opcode.isControl {
            receiveControl(payload, isWhole: isWhole, handle)
        } else {
            receiveData(payload, isWhole: isWhole, handle)
        }
    }
}
