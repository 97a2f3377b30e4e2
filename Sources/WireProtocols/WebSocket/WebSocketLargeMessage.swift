/// A whole message that is not handed over in place, because of its size: to be read on another thread than the connection's.
public struct WebSocketLargeMessage: Sendable {
    public let opcode: WebSocketOpcode
    /// As it came: compressed, or the message itself, already valid UTF-8.
    public let payload: [UInt8]
    public let isCompressed: Bool
    /// Greatest size of the message.
    let maxMessageBytes: Int

    /// The message. O(n)
    /// - Parameter grant: asked before memory is taken for what comes out, with the bytes that it is to have in all; false ends
    ///   the work. Not asked for a message that came as it is.
    /// - Throws: what the decoder would have failed with; `messageTooBig` also where `grant` refuses.
    public func content(_ grant: (Int) -> Bool = { _ in true }) throws(WebSocketError) -> [UInt8] {
        guard isCompressed else { return payload }
        var output: [UInt8] = []
        var utf8 = UTF8Validator()
        let inflater = Inflater(takesOverContext: false)
        func collect(_ piece: UnsafeRawBufferPointer) throws(WebSocketError) {
            let fitting = UnsafeRawBufferPointer(rebasing: piece.prefix(maxMessageBytes - output.count))
            if opcode == .text, !utf8.consume(fitting) { throw .invalidUTF8 }
            if fitting.count < piece.count { throw .messageTooBig }
            let size = output.count + fitting.count
            if size > output.capacity {
                let capacity = min(maxMessageBytes, max(size, 2 * output.capacity, 64 << 10))
                // The room before is there until its bytes have moved.
                guard grant(capacity + output.capacity) else { throw .messageTooBig }
                output.reserveCapacity(capacity)
            }
            output.append(contentsOf: fitting)
        }
        var failure: WebSocketError?
        payload.withUnsafeBytes { bytes in
            do throws(WebSocketError) {
                try inflater.inflate(bytes, collect)
                try inflater.finish(collect)
            } catch { failure = error }
        }
        if let failure { throw failure }
        if opcode == .text, !utf8.isAtBoundary { throw .invalidUTF8 }
        return output
    }
}
