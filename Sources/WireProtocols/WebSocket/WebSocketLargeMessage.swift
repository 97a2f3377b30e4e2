/// A complete message above the decoder's `inlineBytes`, in its own buffer, to be inflated and parsed on another thread.
public struct WebSocketLargeMessage: Sendable {
    public let opcode: WebSocketOpcode
    /// The payload as received: compressed, or the message itself, valid UTF-8.
    public let payload: [UInt8]
    public let isCompressed: Bool
    /// The maximum size of the message.
    let maxMessageBytes: Int

    /// The message. O(n)
    /// - Parameter grant: called with the total bytes before memory is allocated for the inflated message; false stops the work. Not called for
    ///   an uncompressed message.
    /// - Throws: the error with which the decoder would have failed; `messageTooBig` also if `grant` refuses.
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
                // Both buffers exist until the bytes are copied.
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
