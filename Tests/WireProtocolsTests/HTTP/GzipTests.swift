import CZlib
import Testing
import WireProtocols

/// Bodies in gzip.
@Suite(.timeLimit(.minutes(30))) struct GzipTests {
    /// The content of a gzip body, checked against its end.
    private func inflated(_ body: [UInt8]) throws -> [UInt8] {
        try #require(body.count > 18 && body[0] == 0x1F && body[1] == 0x8B && body[2] == 8)
        func number(_ at: Int) -> Int { (0..<4).reduce(0) { $0 | Int(body[at + $1]) << ($1 * 8) } }
        let count = number(body.count - 4)
        var stream = z_stream()
        try #require(vigla_inflate_init(&stream, 15) == Z_OK)
        defer { inflateEnd(&stream) }
        var deflated = Array(body[10..<(body.count - 8)])
        var result = [UInt8](repeating: 0, count: count + 1)
        let status = deflated.withUnsafeMutableBufferPointer { source in
            result.withUnsafeMutableBufferPointer { output in
                stream.next_in = source.baseAddress
                stream.avail_in = uInt(source.count)
                stream.next_out = output.baseAddress
                stream.avail_out = uInt(output.count)
                return inflate(&stream, Z_FINISH)
            }
        }
        #expect(status == Z_STREAM_END && Int(stream.total_out) == count)
        result.removeLast()
        #expect(Int(crc32(0, result, uInt(result.count))) == number(body.count - 8))
        return result
    }

    @Test func body_comesBackAsItWas_andIsShorter() throws {
        for text in [String(repeating: "a", count: 100), (0..<20_000).map { "line \($0)\n" }.joined()] {
            let body = Array(text.utf8)
            let compressed = try #require(Gzip.compressed(body))
            #expect(compressed.count < body.count)
            #expect(try inflated(compressed) == body)
        }
    }

    @Test func body_thatWouldNotBeShorter_staysAsItIs() {
        var state: UInt64 = 7
        let noise = (0..<5_000).map { _ in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return UInt8(truncatingIfNeeded: state >> 33)
        }
        for body in [[], Array("short".utf8), noise] { #expect(Gzip.compressed(body) == nil) }
    }

    @Test(arguments: [
        ("gzip", true), ("br, gzip;q=0.5", true), ("GZIP", true), ("*", true), ("deflate", false), ("", false), ("gzip;q=0", false),
        ("gzip; q=0.000, *", false), ("*;q=0", false), ("gzip;q=0.001", true), ("identity, *;q=0.1", true),
    ])
    func client_isTakenAtItsWord(_ field: String, _ accepted: Bool) {
        #expect(Gzip.isAccepted([field]) == accepted)
    }
}
