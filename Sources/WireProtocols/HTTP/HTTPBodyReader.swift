/// Collects a message body by Content-Length or chunked coding (RFC 9112 §6, §7.1).
struct HTTPBodyReader: Sendable {
    private enum State {
        /// `left` bytes of a plain body are missing.
        case plain(left: Int)
        /// At a chunk-size line.
        case chunkSize
        /// Inside a chunk; `left` bytes of it are missing.
        case chunkData(left: Int)
        /// At the CR LF after a chunk's data.
        case chunkEnd
        /// In the fields after the last chunk; they are validated and dropped.
        case trailers
        case done
    }

    private var state: State
    private var lines = HTTPLineReader()
    private var trailers = HTTPFieldSection()
    /// The full pieces, and the piece being filled. Received bytes are not moved as more arrive, except in the first piece, which starts small.
    private(set) var full: [[UInt8]] = []
    private(set) var last: [UInt8] = []
    /// Bytes received so far.
    private(set) var count = 0
    /// The length announced by the head; nil for chunked coding.
    let announced: Int?

    /// Throws `bodyTooLarge` immediately if the head announces more than the limit.
    init(_ framing: HTTPFieldSection.Framing, _ limits: HTTPLimits) throws(HTTPFailure) {
        switch framing {
        case .none, .length(0):
            announced = 0
            state = .done
        case .length(let length):
            if length > limits.bodyBytes { throw .bodyTooLarge }
            announced = length
            state = .plain(left: length)
            last.reserveCapacity(min(length, 64 * 1024))
        case .chunked:
            announced = nil
            state = .chunkSize
        }
    }

    /// The body received so far.
    var body: HTTPBody { full.isEmpty ? HTTPBody(last) : HTTPBody(pieces: full + [last], count: count) }

    var isDone: Bool { if case .done = state { true } else { false } }

    /// Advances `at` through the body; true when it is complete.
    mutating func read(
        _ bytes: UnsafeRawBufferPointer, _ at: inout Int, _ limits: HTTPLimits
    ) throws(HTTPFailure) -> Bool {
        while true {
            switch state {
            case .done:
                return true
            case .plain(let left):
                let rest = collect(bytes, &at, left)
                state = rest == 0 ? .done : .plain(left: rest)
                if rest > 0 { return false }
            case .chunkSize:
                let size = try lines.next(bytes, &at, limit: limits.chunkLineBytes, tooLong: .badChunk, Self.chunkSize)
                guard let size else { return false }
                if size > limits.bodyBytes - count { throw .bodyTooLarge }
                state = size == 0 ? .trailers : .chunkData(left: size)
            case .chunkData(let left):
                let rest = collect(bytes, &at, left)
                state = rest == 0 ? .chunkEnd : .chunkData(left: rest)
                if rest > 0 { return false }
            case .chunkEnd:
                let isEmpty = try lines.next(bytes, &at, limit: 0, tooLong: .badChunk) { $0.isEmpty }
                guard let isEmpty else { return false }
                if !isEmpty { throw .badChunk }
                state = .chunkSize
            case .trailers:
                guard let isEnd = try trailers.readLine(&lines, bytes, &at, limits) else { return false }
                if isEnd { state = .done }
            }
        }
    }

    /// Appends up to `left` bytes and returns how many are still missing.
    private mutating func collect(_ bytes: UnsafeRawBufferPointer, _ at: inout Int, _ left: Int) -> Int {
        var left = left
        while left > 0, at < bytes.count {
            if last.count == HTTPBody.pieceBytes {
                full.append(last)
                last = []
                last.reserveCapacity(announced.map { min($0 - count, HTTPBody.pieceBytes) } ?? HTTPBody.pieceBytes)
            }
            let size = min(left, bytes.count - at, HTTPBody.pieceBytes - last.count)
            last.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[at..<at + size]))
            at += size
            count += size
            left -= size
        }
        return left
    }

    /// `1*HEXDIG` and optional extensions, which are ignored (RFC 9112 §7.1.1).
    private static func chunkSize(_ line: UnsafeRawBufferPointer) throws(HTTPFailure) -> Int {
        var size = 0
        var at = 0
        while at < line.count, let digit = line[at].hexValue {
            if at == 15 { throw .badChunk }
            size = size << 4 | Int(digit)
            at += 1
        }
        guard at > 0 else { throw .badChunk }
        while at < line.count, line[at].isBlank { at += 1 }
        if at < line.count {
            guard line[at] == UInt8(ascii: ";") else { throw .badChunk }
            guard line[at...].allSatisfy(\.isFieldContent) else { throw .badChunk }
        }
        return size
    }
}
