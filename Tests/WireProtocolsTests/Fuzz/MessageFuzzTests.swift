import JSONTree
import Testing
import TestSupport
@testable import WireProtocols

@Suite(.timeLimit(.fuzzing)) struct MessageFuzzTests {
    private static let json = [
        "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u0000", "\\ud83d", "null", "true", "-0", "1e999", "9223372036854775808", ".sv",
        ".priority", ".value",
        "{\".sv\":\"timestamp\"}", "{\".sv\":{\"increment\":1}}", "/", ".", "#", "$",
    ]

    /// The kept part of a message over its limit, to find the number of its request.
    private static let refusedBytes = 1024

    // MARK: Long polling

    /// An input is the targets of requests, one per line.
    @Test func longPolling() throws {
        var limits = LongPollLimits()
        limits.segmentsAhead = 4
        limits.bytesAhead = 200
        var realtime = RealtimeLimits()
        realtime.messageBytes = 300
        let tokens = [
            "\n", "start=t", "&cb=1", "disconn=t", "dframe=t", "&id=a&pw=b", "&ser=", "&seg0=", "&ts0=", "&d0=", "&seg1=1&ts1=1&d1=", "%2e",
            ".", "-_", "999999", "1000000", "9223372036854775807",
        ]
        try Fuzzing(name: "long-poll", tokens: tokens).run { bytes, generator in
            var upstream = LongPollUpstream(limits: limits, realtime: realtime)
            var fault: String?
            for line in bytes.split(separator: UInt8(ascii: "\n")) {
                guard let target = try? HTTPTarget(text(line)), let request = try? LongPollRequest(target) else { continue }
                guard case .poll(_, _, let segments) = request else { continue }
                do throws(LongPollError) {
                    try upstream.receive(segments) { inbound in
                        guard case .message(let message) = inbound else { return }
                        if message.count > realtime.messageBytes { fault = "message over the limit" }
                        if !UTF8Validator.isValid(message) { fault = "message is not UTF-8" }
                        _ = try? RealtimeMessage.parse(message, limits: realtime)
                    }
                    if upstream.bufferedBytes > limits.bytesAhead + Self.refusedBytes { fault = "holds \(upstream.bufferedBytes) bytes" }
                } catch {
                    if upstream.bufferedBytes > Self.refusedBytes { fault = "holds \(upstream.bufferedBytes) bytes after its end" }
                }
            }
            return fault ?? Self.segmentsFault(bytes, &generator)
        }
    }

    /// A message in segments, in any order, is reassembled unchanged.
    private static func segmentsFault(_ bytes: [UInt8], _ generator: inout SeededRandom) -> String? {
        // Few enough that all of them may wait for the first.
        let message = "{" + text(bytes.prefix(50))
        let segments = LongPollUpstreamTests.segments(message, pieceLength: 1 + generator.below(40)).shuffled(using: &generator)
        var upstream = LongPollUpstream()
        var heard: [String] = []
        for segment in segments {
            guard (try? upstream.receive([segment], { if case .message(let message) = $0 { heard.append(text(message)) } })) != nil else {
                return "refuses segments"
            }
        }
        return heard == [message] ? nil : "another message after its segments"
    }

    // MARK: Realtime

    /// An input is an action, a space and its body. A message's meaning must not depend on the order of its members: read once as the SDKs write it,
    /// once with every part skipped and read at the end.
    @Test func realtimeMessages() throws {
        try Fuzzing(
            name: "realtime",
            tokens: Self.json + ["p ", "m ", "q ", "n ", "g ", "o ", "om ", "oc ", "auth ", "\"p\":\"/a\"", "\"d\":{}"]).run { bytes, _ in
            _ = RealtimeMessage.parse(text(bytes))
            guard let blank = bytes.firstIndex(of: 0x20) else { return nil }
            let (action, body) = (text(bytes[..<blank]), text(bytes[(blank + 1)...]))
            guard action.utf8.allSatisfy({ $0 >= 0x61 && $0 <= 0x7A }) else { return nil }
            let usual = RealtimeMessage.parse("{\"t\":\"d\",\"d\":{\"r\":1,\"a\":\"\(action)\",\"b\":\(body)}}")
            let turned = RealtimeMessage.parse("{\"d\":{\"b\":\(body),\"a\":\"\(action)\",\"r\":1},\"t\":\"d\"}")
            switch (usual, turned) {
            case (.success(.request(let one)), .success(.request(let other))):
                return one.action.summary == other.action.summary ? nil : "\(one.action.summary) or \(other.action.summary)"
            // A body that closes the envelope early may leave either order broken.
            case (.failure, _), (_, .failure): return nil
            default: return "something else in another order"
            }
        }
    }

    /// An input is the texts of a connection, one per line.
    @Test func realtimeChunks() throws {
        try Fuzzing(
            name: "realtime-chunks",
            tokens: ["\n", "0\n", "2\n", "00", "999999", "{\"t\":\"d\",\"d\":{\"r\":5,\"a\":\"s\"}}"]).run { bytes, _ in
            let texts = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map { text($0) }
            var limits = RealtimeLimits()
            limits.messageBytes = 100
            var assembler = RealtimeAssembler(limits: limits)
            var fault: String?
            for text in texts {
                utf8(text).withUnsafeBytes { bytes in
                    assembler.receive(bytes) {
                        if case .message(let message) = $0, message.count > 100 { fault = "message over the limit" }
                    }
                }
                if assembler.bufferedBytes > Self.refusedBytes { fault = "holds \(assembler.bufferedBytes) bytes" }
            }
            return fault
        }
    }

    // MARK: Observe

    @Test func observeMessages() throws {
        try Fuzzing(name: "observe", tokens: Self.json + [
            "\"id\":1", "\"op\":\"set\"", "\"path\":\"/a\"", "\"value\":", "\"sub\":1", "\"seq\":1", "\"events\":[\"value\"]",
        ]).run { bytes, _ in
            _ = ObserveProtocolTests.read(bytes)
            guard case .success(let request) = ObserveProtocolTests.parse(text(bytes)) else { return nil }
            if case .invalid = request.operation { return nil }
            // Every request that is understood can be encoded again.
            let again = ObserveProtocolTests.parse(text(request.encoded()))
            return again == .success(request) ? nil : "\(request) is read again as \(again)"
        }
    }
}
