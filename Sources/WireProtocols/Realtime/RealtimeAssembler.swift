import JSONTree

/// An event of a realtime connection. Pointers are valid only during the call that delivers the event.
public enum RealtimeInbound {
    /// The text `0`: the client is alive; send no response (contract §1.5).
    case keepAlive
    /// A complete message, chunks joined, for `RealtimeMessage.parse`.
    case message(UnsafeRawBufferPointer)
    /// A complete message in chunks that exceeds one block. The parser joins it.
    case blocks(MessageBlocks)
    /// A request over the limit was dropped: respond to this number with `RealtimeRefusal.writeTooBig`.
    case oversized(number: Int64)
    /// Close the connection.
    case failure(RealtimeError)
}

/// Joins the chunks of realtime messages (contract §1.6).
///
/// ```
/// idle ── "0" ──────────────► keepAlive
///   │ ├── other text ───────► message
///   │ └── 1–6 digits: n ──► collecting n texts ──► message          (whatever their content, even "0")
///   │                             └── over the limit ──► dropping the rest ──► oversized
///   └── count of zero ────► failure; further input is ignored
/// ```
public struct RealtimeAssembler: Sendable {
    private enum State {
        case idle
        /// `left` texts of the message in `collected` are missing.
        case collecting(left: Int)
        /// The message exceeds the limit: `left` texts are dropped; its beginning is in `collected`.
        case dropping(left: Int)
        case failed
    }

    public let maxMessageBytes: Int
    private var state = State.idle
    private var collected = MessageBlocks()

    public init(limits: RealtimeLimits = RealtimeLimits()) {
        maxMessageBytes = limits.messageBytes
    }

    /// Bytes buffered for an incomplete message.
    public var bufferedBytes: Int { collected.count }

    /// Whether a message in chunks is incomplete.
    public var isInsideMessage: Bool {
        switch state {
        case .collecting, .dropping: true
        case .idle, .failed: false
        }
    }
    /// Bytes received of the open message, including dropped ones.
    public private(set) var openBytes = 0
    /// The number of chunked messages that have begun, modulo 2³².
    public private(set) var messages: UInt32 = 0

    /// Processes the payload of one text frame. O(n), however much was collected before; delivers a single-frame message without a copy.
    public mutating func receive(_ text: UnsafeRawBufferPointer, _ handle: (RealtimeInbound) -> Void) {
        switch state {
        case .failed:
            return
        case .idle:
            if text.count == 1 && text[0] == UInt8(ascii: "0") { return handle(.keepAlive) }
            if let count = Self.chunkCount(text) {
                if count == 0 { return fail(.badChunkCount, handle) }
                state = .collecting(left: count)
                openBytes = 0
                messages &+= 1
            } else if text.count > maxMessageBytes {
                collected.append(UnsafeRawBufferPointer(rebasing: text.prefix(Self.prefixBytes)))
                refuse(handle)
            } else {
                handle(.message(text))
            }
        case .collecting(let left):
            openBytes += text.count
            if text.count > maxMessageBytes - collected.count {
                let kept = collected.prefix(Self.prefixBytes)
                collected = MessageBlocks()
                kept.withUnsafeBytes { collected.append($0) }
                collected.append(UnsafeRawBufferPointer(rebasing: text.prefix(Self.prefixBytes - kept.count)))
                state = .dropping(left: left - 1)
                if left == 1 { refuse(handle) }
                return
            }
            collected.append(text)
            state = .collecting(left: left - 1)
            if left > 1 { return }
            state = .idle
            let message = collected
            collected = MessageBlocks()
            guard let single = message.single else { return handle(.blocks(message)) }
            single.withUnsafeBytes { handle(.message($0)) }
        case .dropping(let left):
            openBytes += text.count
            state = .dropping(left: left - 1)
            if left == 1 { refuse(handle) }
        }
    }

    /// 1–6 digits and nothing else.
    private static func chunkCount(_ text: UnsafeRawBufferPointer) -> Int? {
        guard (1...6).contains(text.count), text.allSatisfy(\.isDigit) else { return nil }
        return text.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
    }

    // MARK: Over the limit

    /// The bytes kept of an oversized message to find its request number, which the SDKs write before the body.
    private static let prefixBytes = 1024

    private mutating func refuse(_ handle: (RealtimeInbound) -> Void) {
        let prefix = collected.prefix(Self.prefixBytes)
        collected = MessageBlocks()
        guard let number = prefix.withUnsafeBytes(Self.requestNumber) else { return fail(.messageTooBig, handle) }
        state = .idle
        handle(.oversized(number: number))
    }

    private mutating func fail(_ error: RealtimeError, _ handle: (RealtimeInbound) -> Void) {
        state = .failed
        collected = MessageBlocks()
        handle(.failure(error))
    }

    /// `r` of `{"t":"d","d":{"r":7,…`, if the prefix contains it.
    private static func requestNumber(_ prefix: UnsafeRawBufferPointer) -> Int64? {
        var reader = JSONReader(prefix)
        func member(_ wanted: String) throws(JSONError) -> Bool {
            try reader.beginObject()
            while let name = try reader.nextName() {
                if name == wanted { return true }
                try reader.skipValue()
            }
            return false
        }
        do throws(JSONError) {
            guard try member("d"), try member("r") else { return nil }
            let number = try reader.int()
            // Digits at the end may be truncated.
            return reader.offset < prefix.count ? number : nil
        } catch {
            return nil
        }
    }
}
