import CZlib
import Testing
import TestSupport
@testable import WireProtocols

/// RFC 7692 §6 and §7.2.
@Suite(.timeLimit(.minutes(30))) struct DeflateTests {
    private static let hello: [UInt8] = [0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00]

    private static func hear(
        _ pieces: [[UInt8]], _ agreement: DeflateAgreement = DeflateAgreement(), role: WebSocketDecoder.Role = .server, limit: Int = 1 << 20
    ) -> [HeardEvent] {
        var decoder = WebSocketDecoder(role: role, maxMessageBytes: limit, deflate: agreement)
        return pieces.flatMap { decoder.hear($0) }
    }

    @Test func vectors_ofRFC7692_7_2_3() {
        let hello = HeardEvent.text(utf8("Hello"))
        #expect(Self.hear([clientFrame(1, Self.hello, rsv: 4)]) == [hello])
        // Two fragments; RSV1 on the first only.
        let fragments = clientFrame(1, Array(Self.hello.prefix(3)), fin: false, rsv: 4) + clientFrame(0, Array(Self.hello.dropFirst(3)))
        #expect(Self.hear([fragments]) == [hello])
        // The second one refers to the first.
        #expect(Self.hear([clientFrame(1, Self.hello, rsv: 4) + clientFrame(1, [0xF2, 0x00, 0x11, 0x00, 0x00], rsv: 4)]) == [hello, hello])
        // A block without compression, a block with BFINAL, two blocks.
        #expect(Self.hear([clientFrame(1, [0x00, 0x05, 0x00, 0xFA, 0xFF, 0x48, 0x65, 0x6C, 0x6C, 0x6F, 0x00], rsv: 4)]) == [hello])
        #expect(Self.hear([clientFrame(1, [0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00], rsv: 4)]) == [hello])
        #expect(
            Self.hear([clientFrame(1, [0xF2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xFF, 0xFF, 0xCA, 0xC9, 0xC9, 0x07, 0x00], rsv: 4)]) == [hello])
        // Empty messages: the empty block, and nothing at all.
        #expect(Self.hear([clientFrame(1, [0x00], rsv: 4) + clientFrame(2, [], rsv: 4)]) == [.text([]), .binary([])])
    }

    @Test func contextAfterAFinalBlock_goesOn() {
        let final: [UInt8] = [0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00]
        let refers = clientFrame(1, [0xF2, 0x00, 0x11, 0x00, 0x00], rsv: 4)
        #expect(Self.hear([clientFrame(1, final, rsv: 4) + refers]) == [.text(utf8("Hello")), .text(utf8("Hello"))])
    }

    @Test func contextWithoutTakeover_isGone() {
        let alone = DeflateAgreement(client: .init(takesOverContext: false))
        let refers = clientFrame(1, [0xF2, 0x00, 0x11, 0x00, 0x00], rsv: 4)
        #expect(Self.hear([clientFrame(1, Self.hello, rsv: 4) + refers], alone) == [.text(utf8("Hello")), .failure(.badCompression)])
        var decoder = WebSocketDecoder(role: .server, maxMessageBytes: 100, deflate: alone)
        #expect(!decoder.holdsInflater)
        _ = decoder.hear(clientFrame(1, Array(Self.hello.prefix(3)), fin: false, rsv: 4))
        #expect(decoder.holdsInflater)
        _ = decoder.hear(clientFrame(0, Array(Self.hello.dropFirst(3))))
        #expect(!decoder.holdsInflater)
    }

    @Test func conversation_isTheSame_howeverItIsSplit() {
        let refers: [UInt8] = [0xF2, 0x00, 0x11, 0x00, 0x00]
        let bytes = clientFrame(1, Self.hello, rsv: 4) + clientFrame(1, utf8("plain"))
            + clientFrame(2, Array(refers.prefix(1)), fin: false, rsv: 4) + clientFrame(9, utf8("?")) + clientFrame(0, [], fin: false)
            + clientFrame(10, []) + clientFrame(0, Array(refers.dropFirst())) + clientFrame(8, [])
        let events: [HeardEvent] = [
            .text(utf8("Hello")), .text(utf8("plain")), .ping(utf8("?")), .pong([]), .binary(utf8("Hello")), .close(nil, []),
        ]
        for pieces in feedings(of: bytes) { #expect(Self.hear(pieces) == events) }
    }

    @Test func reservedBits_outsideAFirstFrame_fail() {
        let cases: [[UInt8]] = [
            clientFrame(9, [], rsv: 4), clientFrame(10, [], rsv: 4), clientFrame(8, [], rsv: 4), clientFrame(1, Self.hello, rsv: 6),
            clientFrame(1, Self.hello, rsv: 5), clientFrame(1, [], fin: false) + clientFrame(0, [], rsv: 4),
            clientFrame(1, [], fin: false, rsv: 4) + clientFrame(0, [0], rsv: 4),
        ]
        for bytes in cases { #expect(Self.hear([bytes]) == [.failure(.reservedBits)]) }
        #expect(WebSocketDecoder.hear([clientFrame(1, Self.hello, rsv: 4)]) == [.failure(.reservedBits)])
    }

    @Test func brokenData_fails_with1007() {
        #expect(WebSocketError.badCompression.closeCode == 1007)
        for bytes: [UInt8] in [[0xFF], [0x07], Array(Self.hello.prefix(4)), [0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00]] {
            #expect(Self.hear([clientFrame(1, bytes, rsv: 4)]) == [.failure(.badCompression)], "\(bytes)")
        }
    }

    @Test func text_isChecked_afterInflating_andInTheMiddleOfAFrame() throws {
        let broken = utf8("abc") + [0xFF] + utf8("defghijklmnopqrstuvwxyz")
        let encoder = WebSocketEncoder(.init(), settings: Self.eager)
        func payload(_ bytes: [UInt8]) -> [UInt8] { Array(bytes.withUnsafeBytes { encoder.frame(.text, $0) }.dropFirst(2)) }
        #expect(Self.hear([clientFrame(1, payload(broken + broken), rsv: 4)]) == [.failure(.invalidUTF8)])
        encoder.release()
        let cut = payload(utf8(String(repeating: "x", count: 50)) + [0xE2, 0x82])
        #expect(Self.hear([clientFrame(1, cut, rsv: 4)]) == [.failure(.invalidUTF8)])
        // A stored block, so that the third byte of the content arrives before the frame ends.
        var decoder = WebSocketDecoder(role: .server, maxMessageBytes: 1000, deflate: DeflateAgreement())
        let frame = clientFrame(1, [0x00, 0x05, 0x00, 0xFA, 0xFF, 0x48, 0x65, 0xFF, 0x6C, 0x6F, 0x00], rsv: 4)
        #expect(decoder.hear(Array(frame.dropLast(3))) == [.failure(.invalidUTF8)])
    }

    @Test func message_atTheLimit_passes_andOneByteMoreFails() {
        let encoder = WebSocketEncoder(.init(takesOverContext: false), settings: Self.eager)
        for (size, isGood) in [(1000, true), (1001, false)] {
            let bytes = [UInt8](repeating: 0x61, count: size)
            let frame = bytes.withUnsafeBytes { encoder.frame(.text, $0) }
            #expect(frame.count < 40)
            #expect(Self.hear([frame], role: .client, limit: 1000) == [isGood ? .text(bytes) : .failure(.messageTooBig)])
        }
    }

    /// 100 MB in 100 KB: stopped while it is inflated, with no more than the limit in memory.
    @Test func bomb_isStopped_atTheLimit() {
        var decoder = WebSocketDecoder(role: .server, maxMessageBytes: 1 << 20, deflate: DeflateAgreement())
        var heard: [HeardEvent] = []
        var mostHeld = 0
        for (index, piece) in Bomb.blocks(100).enumerated() where !decoder.hasEnded {
            heard += decoder.hear(clientFrame(index == 0 ? 2 : 0, piece, fin: false, rsv: index == 0 ? 4 : 0))
            mostHeld = max(mostHeld, decoder.bufferedBytes)
        }
        #expect(heard == [.failure(.messageTooBig)])
        #expect(mostHeld <= 1 << 20)
        #expect(!decoder.holdsInflater)
        // In one frame, too.
        #expect(Self.hear([clientFrame(2, Bomb.blocks(100).flatMap { $0 }, rsv: 4)]) == [.failure(.messageTooBig)])
    }

    private static let eager: DeflateSettings = {
        var settings = DeflateSettings()
        settings.thresholdBytes = 1
        return settings
    }()

    @Test(arguments: 8...15, [true, false])
    func messages_survive_everyWindowAndTakeover(bits: Int, takesOver: Bool) {
        let direction = DeflateAgreement.Direction(windowBits: bits, takesOverContext: takesOver)
        let encoder = WebSocketEncoder(direction, settings: Self.eager)
        var decoder = WebSocketDecoder(role: .client, maxMessageBytes: 1 << 20, deflate: DeflateAgreement(server: direction))
        var generator = SeededRandom(UInt64(bits))
        for size in [1, 2, 100, 300, 5_000, 70_000, 40] {
            let noise = (0..<size).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
            for payload in [Self.prose(size), noise, Self.prose(size)] {
                let frame = payload.withUnsafeBytes { encoder.frame(.binary, $0) }
                #expect(frame.count <= payload.count + 10)
                #expect(decoder.hear(frame) == [.binary(payload)])
            }
        }
    }

    /// Found by fuzzing: a reference beyond the agreed window was refused or not, depending on how the bytes arrived.
    @Test func referenceBeyondTheAgreedWindow_isTakenAlike_howeverItArrives() throws {
        var generator = SeededRandom(4)
        let noise = (0..<3_000).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
        let payload = try #require((noise + noise).withUnsafeBytes { Deflater(.init(), Self.eager).compress($0) })
        let small = DeflateAgreement(client: .init(windowBits: 9))
        let frame = clientFrame(2, payload, rsv: 4)
        for pieces in [[frame], frame.map { [$0] }, [Array(frame.prefix(3_500)), Array(frame.dropFirst(3_500))]] {
            #expect(Self.hear(pieces, small) == [.binary(noise + noise)])
        }
    }

    /// The receiver's window may be as small as agreed: zlib's output for `bits` is inflated with exactly that window.
    @Test(arguments: 8...15) func references_stayInsideTheWindow(bits: Int) throws {
        let deflater = Deflater(.init(windowBits: bits), Self.eager)
        var stream = z_stream()
        #expect(vigla_inflate_init(&stream, Int32(bits)) == Z_OK)
        defer { inflateEnd(&stream) }
        for _ in 0..<3 {
            let payload = Self.prose(9_000)
            let compressed = try #require(payload.withUnsafeBytes { deflater.compress($0) }) + Deflater.marker
            var output = [UInt8](repeating: 0, count: 10_000)
            let count = compressed.withUnsafeBufferPointer { input in
                output.withUnsafeMutableBufferPointer { output in
                    stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                    stream.avail_in = uInt(input.count)
                    stream.next_out = output.baseAddress
                    stream.avail_out = uInt(output.count)
                    #expect(inflate(&stream, Z_SYNC_FLUSH) == Z_OK)
                    return output.count - Int(stream.avail_out)
                }
            }
            #expect(Array(output[..<count]) == payload)
        }
    }

    /// Text with near and distant repetitions.
    private static func prose(_ size: Int) -> [UInt8] {
        let words = ["position", "latitude", "longitude", "accuracy", "speed", "37.97", "23.73", "null"]
        var generator = SeededRandom(3)
        var bytes: [UInt8] = []
        while bytes.count < size { bytes += utf8("\"\(words[generator.below(words.count)])\":\(generator.below(1000)),      ") }
        return Array(bytes.prefix(size))
    }

    @Test func shortMessages_andNoise_areSentPlain() {
        var settings = DeflateSettings()
        settings.thresholdBytes = 100
        let encoder = WebSocketEncoder(.init(), settings: settings)
        func frame(_ payload: [UInt8]) -> [UInt8] { payload.withUnsafeBytes { encoder.frame(.text, $0) } }
        #expect(frame(Array(repeating: 0x61, count: 99)) == WebSocketFrame.text(Array(repeating: 0x61, count: 99)))
        #expect(!encoder.holdsDeflater)
        #expect(frame(Array(repeating: 0x61, count: 100))[0] == 0xC1)
        #expect(encoder.holdsDeflater)
        encoder.release()
        #expect(!encoder.holdsDeflater)
        var generator = SeededRandom(8)
        let noise = (0..<500).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
        #expect(noise.withUnsafeBytes { encoder.frame(.binary, $0) } == WebSocketFrame.binary(noise))
        #expect(noise.withUnsafeBytes { encoder.frame(.ping, $0) }[0] == 0x89)
    }

    @Test func readyFrames_areCompressedOneByOne() throws {
        let encoder = WebSocketEncoder(.init(takesOverContext: false))
        let long = [UInt8](repeating: 0x61, count: 1000), short = utf8("short")
        let frames = WebSocketFrame.text(short) + WebSocketFrame.text(long) + WebSocketFrame.ping() + WebSocketFrame.text(long)
        let compressed = try #require(encoder.compressed(frames))
        #expect(compressed.count < 60)
        #expect(Self.hear([compressed], role: .client) == [.text(short), .text(long), .ping([]), .text(long)])
        #expect(encoder.compressed(WebSocketFrame.text(short)) == nil)
        #expect(encoder.compressed(Array(WebSocketFrame.text(long).dropLast())) == nil)
        #expect(WebSocketEncoder().compressed(frames) == nil)
    }
}

/// Small data that inflates to a large size.
enum Bomb {
    /// Pieces of one compressed message, each of which inflates to 1 MB of blanks.
    static func blocks(_ count: Int) -> [[UInt8]] {
        let deflater = Deflater(.init(takesOverContext: false), DeflateSettings())
        let block = [UInt8](repeating: 0x20, count: 1_000_000).withUnsafeBytes { deflater.compress($0) } ?? []
        return Array(repeating: block + Deflater.marker, count: count)
    }
}
