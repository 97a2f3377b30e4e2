/// Unwraps the server's messages from their WebSocket frames for long-polling clients, so that a broadcast is encoded once for both
/// transports.
public struct FrameUnwrapper: Sendable {
    private var decoder = WebSocketDecoder(role: .client, maxMessageBytes: .max)
    private var assembler: RealtimeAssembler

    public init() {
        var limits = RealtimeLimits()
        limits.messageBytes = .max
        assembler = RealtimeAssembler(limits: limits)
    }

    /// The messages completed by `frames`, with chunks joined. O(n), one copy.
    public mutating func messages(in frames: [UInt8]) -> [[UInt8]] {
        var frames = frames
        var messages: [[UInt8]] = []
        frames.withUnsafeMutableBytes { bytes in
            decoder.receive(bytes) { event in
                guard case .text(let text) = event else { return }
                assembler.receive(text) { inbound in
                    switch inbound {
                    case .message(let message): messages.append(Array(message))
                    case .blocks(let message): messages.append(message.joined())
                    case .keepAlive, .oversized, .failure: break
                    }
                }
            }
        }
        return messages
    }
}
