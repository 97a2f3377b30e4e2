import Testing

@testable import WireProtocols

/// A large body stays in the buffers into which it was read.
@Suite struct HTTPBodyTests {
    private static let limits = HTTPLimits()

    /// The address of each piece.
    private static func places(_ reader: HTTPBodyReader) -> [UnsafeRawPointer?] {
        (reader.full + [reader.last]).map { $0.withUnsafeBytes { $0.baseAddress } }
    }

    private static func content(_ bytes: Int) -> [UInt8] { (0..<bytes).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) } }

    @Test(arguments: [true, false]) func largeBody_isNotMovedForWhatFollows(isChunked: Bool) throws {
        let content = Self.content(5 << 20 + 77)
        var reader = try HTTPBodyReader(isChunked ? .chunked : .length(content.count), Self.limits)
        var (moved, before) = (0, [UnsafeRawPointer?]())
        var at = 0
        while at < content.count {
            let size = min(60_000, content.count - at)
            var bytes = Array(content[at..<at + size])
            if isChunked { bytes = Array("\(String(size, radix: 16))\r\n".utf8) + bytes + Array("\r\n".utf8) }
            let held = reader.last.count
            try bytes.withUnsafeBytes { bytes in
                var used = 0
                _ = try reader.read(bytes, &used, Self.limits)
                #expect(used == bytes.count)
            }
            at += size
            let now = Self.places(reader)
            if let last = before.last, now[before.count - 1] != last {
                // Only the first one grows.
                #expect(before.count == 1)
                moved += held
            }
            #expect(Array(now.prefix(max(0, before.count - 1))) == before.dropLast())
            before = now
        }
        #expect(moved <= 2 * HTTPBody.pieceBytes, "\(moved)")
        #expect(reader.full.allSatisfy { $0.count == HTTPBody.pieceBytes } && reader.full.count == 5 && reader.count == content.count)
        let body = reader.body
        #expect(body.count == content.count && body.bytes == content)
        // Joined once, for all copies.
        let copy = body
        defer {
            #expect(copy.detachBytes() == content && body.bytes == [])
        }
        #expect(copy.bytes.withUnsafeBytes { $0.baseAddress } == body.bytes.withUnsafeBytes { $0.baseAddress })
    }

    @Test(arguments: [0, 1, HTTPBody.pieceBytes - 1, HTTPBody.pieceBytes, HTTPBody.pieceBytes + 1, 2 * HTTPBody.pieceBytes])
    func body_ofAnyLength_comesWhole(length: Int) throws {
        let content = Self.content(length)
        var parser = HTTPRequestParser(limits: Self.limits)
        let request = Array("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: \(length)\r\n\r\n".utf8) + content
        var found: HTTPInboundRequest?
        for start in stride(from: 0, to: request.count, by: 100_000) {
            let step = request[start..<min(start + 100_000, request.count)].withUnsafeBytes { parser.receive($0) }
            if case .request(let request) = step.event { found = request }
        }
        #expect(try #require(found).content.count == length)
        #expect(try #require(found).body == content)
    }

    /// The announced length is only a promise: memory is allocated as data arrives.
    @Test func announcedLength_isNotReserved() throws {
        var reader = try HTTPBodyReader(.length(60 << 20), Self.limits)
        #expect(reader.last.capacity <= 128 << 10)
        try Self.content(HTTPBody.pieceBytes + 1).withUnsafeBytes { bytes in
            var used = 0
            _ = try reader.read(bytes, &used, Self.limits)
        }
        #expect(reader.last.capacity <= HTTPBody.pieceBytes + 4096)
    }
}
