import JSONTree
import Testing
import TestSupport
@testable import WireProtocols

/// From requests of `/.lp` to messages (contract §1.8, checks 23, 24, 30).
@Suite(.timeLimit(.minutes(30))) struct LongPollUpstreamTests {
    /// The client's encoder, implemented from the contract: websafe alphabet, `.` for padding, pieces of one length.
    static func segments(_ text: String, from first: Int = 0, pieceLength: Int = 1840) -> [LongPollSegment] {
        let base64 = websafe(utf8(text))
        let starts = Array(stride(from: 0, to: max(1, base64.count), by: pieceLength))
        return starts.enumerated().map { index, start in
            LongPollSegment(
                number: first + index, pieces: starts.count, data: Array(base64[start..<min(base64.count, start + pieceLength)]))
        }
    }

    static func websafe(_ bytes: [UInt8]) -> [UInt8] {
        Base64.encode(bytes).utf8.map { letter in
            switch letter {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            case UInt8(ascii: "="): UInt8(ascii: ".")
            default: letter
            }
        }
    }

    /// The assembled messages, as text.
    static func run(_ upstream: inout LongPollUpstream, _ segments: [LongPollSegment]) throws -> [String] {
        var heard: [String] = []
        try upstream.receive(segments) { inbound in
            switch inbound {
            case .message(let bytes): heard.append(text(bytes))
            case .blocks(let blocks): heard.append(text(blocks.joined()))
            case .keepAlive: heard.append("keepAlive")
            case .oversized(let number): heard.append("oversized \(number)")
            case .failure(let error): heard.append("failure \(error)")
            }
        }
        return heard
    }

    // MARK: Requests

    @Test func request_open_hasTheCallbackNumber() throws {
        let target = try HTTPTarget("/.lp?start=t&ser=5&cb=12&v=5&ns=demo")
        #expect(try LongPollRequest(target) == .open(callback: "12"))
        #expect(try LongPollRequest(HTTPTarget("/.lp?start=t&ser=5&v=5")) == .open(callback: ""))
    }

    @Test func request_callbackThatIsNoNumber_isRefused() throws {
        let target = try HTTPTarget("/.lp?start=t&cb=1%22%5D;alert(1);//")
        #expect(throws: LongPollError.malformedRequest) { try LongPollRequest(target) }
    }

    @Test func request_poll_hasItsSegmentsInOrder() throws {
        let key = LongPollKey(id: "7", password: "pw")
        let target = try HTTPTarget("/.lp?id=7&pw=pw&ser=19&ns=demo&seg0=4&ts0=2&d0=ab-_&seg1=5&ts1=2&d1=cd..")
        #expect(
            try LongPollRequest(target)
                == .poll(
                    key, serial: 19,
                    segments: [
                        LongPollSegment(number: 4, pieces: 2, data: utf8("ab-_")),
                        LongPollSegment(number: 5, pieces: 2, data: utf8("cd..")),
                    ]))
        #expect(try LongPollRequest(HTTPTarget("/.lp?id=7&pw=pw&ser=1")) == .poll(key, serial: 1, segments: []))
        #expect(try LongPollRequest(HTTPTarget("/.lp?dframe=t&id=7&pw=pw")) == .disconnectPage(key))
        #expect(try LongPollRequest(HTTPTarget("/.lp?disconn=t&id=7&pw=pw")) == .disconnect(key))
    }

    @Test(arguments: [
        "/.lp", "/.lp?id=7", "/.lp?pw=7", "/.lp?id=7&pw=x&seg0=a&ts0=1&d0=", "/.lp?id=7&pw=x&seg0=-1&ts0=1&d0=",
        "/.lp?id=7&pw=x&seg0=0&ts0=0&d0=", "/.lp?id=7&pw=x&seg0=0&d0=ab", "/.lp?id=7&pw=x&seg0=0&ts0=1",
    ])
    func request_withoutItsParts_isRefused(_ target: String) throws {
        let target = try HTTPTarget(target)
        #expect(throws: LongPollError.malformedRequest) { try LongPollRequest(target) }
    }

    @Test func check30_key_opensItsOwnSessionOnly() {
        let secret = LongPollKey(id: "1", password: "abcdef")
        #expect(secret.matches(secret))
        for wrong in ["abcdeg", "abcde", "abcdefg", "", "Abcdef"] { #expect(!LongPollKey(id: "1", password: wrong).matches(secret)) }
        #expect(!LongPollKey(id: "2", password: "abcdef").matches(secret))
    }

    // MARK: Base64

    @Test func check24_base64_everyLengthAndCut_decodes() throws {
        for length in 0...9 {
            let bytes = (0..<length).map { UInt8(truncatingIfNeeded: 251 &* ($0 + 1) &+ 62) }
            let encoded = Self.websafe(bytes)
            for cut in 0...encoded.count {
                var decoder = LongPollBase64()
                let decoded = try decoder.decode(Array(encoded[..<cut])) + decoder.decode(Array(encoded[cut...]))
                #expect(decoded == bytes)
            }
        }
        var decoder = LongPollBase64()
        #expect(try decoder.decode(utf8("-_8.")) == [0xFB, 0xFF])
    }

    @Test func base64_ofManyGroups_decodes_whereverItIsCut() throws {
        let bytes = (0..<100).map { UInt8(truncatingIfNeeded: $0 &* 89 &+ 3) }
        let encoded = Self.websafe(bytes)
        for cut in 0...encoded.count {
            var decoder = LongPollBase64()
            #expect(try decoder.decode(Array(encoded[..<cut])) + decoder.decode(Array(encoded[cut...])) == bytes)
        }
        for place in 0..<40 {
            var bad = encoded
            bad[place] = UInt8(ascii: "+")
            var decoder = LongPollBase64()
            #expect(throws: LongPollError.notBase64) { try decoder.decode(bad) }
        }
    }

    @Test(arguments: ["ab+c", "ab/c", "ab=c", "a b", "ab.c", "é"])
    func base64_otherLetters_areRefused(_ encoded: String) {
        var decoder = LongPollBase64()
        #expect(throws: LongPollError.notBase64) { try decoder.decode(utf8(encoded)) }
    }

    // MARK: Messages

    @Test func check23_segmentsInAnyOrder_giveTheMessagesInOrder() throws {
        let texts = (0..<6).map { "{\"n\":\($0),\"x\":\"\(String(repeating: "ä\u{1F600}", count: $0 * 7))\"}" }
        var all: [LongPollSegment] = []
        for text in texts { all += Self.segments(text, from: all.count, pieceLength: 8) }
        var generator = SeededRandom(23)
        for _ in 0..<fuzzRounds(50) {
            var upstream = LongPollUpstream()
            var heard: [String] = []
            for segment in all.shuffled(using: &generator) {
                // Sometimes each comes twice, as when a browser repeats a request.
                let copies = generator.below(4) == 0 ? 2 : 1
                for _ in 0..<copies { heard += try Self.run(&upstream, [segment]) }
            }
            #expect(heard == texts)
            #expect(upstream.bufferedBytes == 0)
        }
    }

    @Test func message_ofManySegments_comesInBlocks_andIsText() throws {
        var upstream = LongPollUpstream()
        // Scalars of four bytes, cut by segments and blocks.
        let message = "x" + String(repeating: "\u{1F600}", count: 50_000)
        let all = Self.segments(message, pieceLength: 1839)
        for segment in all.dropLast() { #expect(try Self.run(&upstream, [segment]) == []) }
        #expect(try Self.run(&upstream, all.suffix(1)) == [message])
        #expect(upstream.bufferedBytes == 0)
    }

    @Test(arguments: [[0xFF], [0xC3]]) func message_ofManySegments_thatIsNoText_isRefusedAtItsEnd(_ last: [UInt8]) throws {
        var upstream = LongPollUpstream()
        let bytes = [UInt8](repeating: 0x20, count: 150_000)
        for (place, isAtEnd) in [(75_000, false), (150_000, true)] {
            if !isAtEnd, last == [0xC3] { continue }
            var bad = bytes
            bad.insert(contentsOf: last, at: place)
            let base64 = Self.websafe(bad)
            let pieces = stride(from: 0, to: base64.count, by: 1840).map { Array(base64[$0..<min(base64.count, $0 + 1840)]) }
            upstream = LongPollUpstream()
            var heard: [String] = []
            for (number, piece) in pieces.enumerated() {
                heard += try Self.run(&upstream, [LongPollSegment(number: number, pieces: pieces.count, data: piece)])
            }
            #expect(heard == ["failure \(RealtimeError.malformed(offset: 0))"])
            // The next message is read as usual.
            let next = Self.segments("{}", from: pieces.count)
            #expect(try Self.run(&upstream, next) == ["{}"])
        }
    }

    @Test func segments_tooFarAhead_endTheSession() throws {
        var limits = LongPollLimits()
        limits.segmentsAhead = 3
        var upstream = LongPollUpstream(limits: limits)
        let all = Self.segments(String(repeating: "x", count: 60), pieceLength: 8)
        #expect(try Self.run(&upstream, Array(all[1...3])) == [])
        #expect(throws: LongPollError.tooFarAhead) { try Self.run(&upstream, [all[4]]) }
        limits.segmentsAhead = 100
        limits.bytesAhead = 16
        upstream = LongPollUpstream(limits: limits)
        #expect(try Self.run(&upstream, Array(all[1...2])) == [])
        #expect(throws: LongPollError.tooFarAhead) { try Self.run(&upstream, [all[3]]) }
    }

    @Test func segments_thatDisagreeOnTheirNumber_endTheSession() throws {
        var upstream = LongPollUpstream()
        _ = try Self.run(&upstream, [LongPollSegment(number: 0, pieces: 3, data: utf8("e30."))])
        #expect(throws: LongPollError.pieceCount) {
            try Self.run(&upstream, [LongPollSegment(number: 1, pieces: 2, data: utf8("e30."))])
        }
        upstream = LongPollUpstream()
        #expect(throws: LongPollError.pieceCount) {
            try Self.run(&upstream, [LongPollSegment(number: 0, pieces: 1_000_000, data: [])])
        }
    }

    @Test func message_overTheLimit_isRefusedByNumberAndTheNextOneHeard() throws {
        var realtime = RealtimeLimits()
        realtime.messageBytes = 64
        var upstream = LongPollUpstream(realtime: realtime)
        let tooLong = #"{"t":"d","d":{"r":7,"a":"p","b":{"p":"a","d":"xxxxxxxxxxxxxxx"}}}"#
        try #require(tooLong.utf8.count == 65)
        let big = Self.segments(tooLong, pieceLength: 12)
        #expect(try Self.run(&upstream, big) == ["oversized 7"])
        let small = String(tooLong.replacing("xx\"", with: "x\""))
        #expect(try Self.run(&upstream, Self.segments(small, from: big.count, pieceLength: 12)) == [small])
    }

    @Test func message_thatIsNotUTF8_isAFailure() throws {
        var upstream = LongPollUpstream()
        let segment = LongPollSegment(number: 0, pieces: 1, data: Self.websafe([0x22, 0xFF, 0x22]))
        #expect(try Self.run(&upstream, [segment]) == ["failure malformed(offset: 0)"])
    }

    @Test func message_thatLooksLikeAChunkCount_isAMessage() throws {
        var upstream = LongPollUpstream()
        #expect(
            try Self.run(&upstream, Self.segments("0") + Self.segments("12", from: 1) + Self.segments("{}", from: 2)) == ["0", "12", "{}"])
    }
}
