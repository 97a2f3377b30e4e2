/// Control frames: ping, pong and close (RFC 6455 §5.5).
extension WebSocketDecoder {
    mutating func receiveControl(
        _ piece: UnsafeRawBufferPointer, isWhole: Bool, _ handle: (WebSocketEvent) -> Void
    ) {
        if isWhole {
            finishControl(piece, handle)
        } else {
            control.append(contentsOf: piece)
            if payloadRead < frame.length { return }
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

    /// The payload of a close frame: empty, or a valid code and a UTF-8 reason (RFC 6455 §5.5.1).
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
}
