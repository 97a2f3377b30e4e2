import HTTPTypes
import Testing
@testable import WireProtocols

@Suite(.timeLimit(.minutes(30))) struct HTTPRequestParserTests {
    static let pipeline =
        "\r\nGET /a/b.json?auth=x HTTP/1.1\r\nHost: h:1\r\nAccept:  */* \t\r\n\r\n"
        + "PUT /a.json HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\n{\"a\":1}"
        + "POST /l.json HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n5;x=\"y\"\r\nhello\r\n0A \r\n, world!!!\r\n0\r\nX-T: 1\r\n"
            + "\r\n"
        + "DELETE http://other:9/x HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n" + "OPTIONS * HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n"

    @Test func pipeline_isTheSame_howeverItIsSplit() throws {
        let whole = try HTTPRequestParser.requests([utf8(Self.pipeline)]).map { try $0.get().summary }
        #expect(whole == [
            "GET /a/b.json?auth=x [Host=h:1|Accept=*/*]  true true",
            "PUT /a.json?- [Host=h|Content-Length=7] {\"a\":1} true true",
            "POST /l.json?- [Host=h|Transfer-Encoding=Chunked] hello, world!!! true true",
            "DELETE /x?- [Connection=Keep-Alive]  false true", "OPTIONS *?- [Host=|Connection=close]  true false",
        ])
        for pieces in feedings(of: utf8(Self.pipeline)) {
            #expect(try HTTPRequestParser.requests(pieces).map { try $0.get().summary } == whole)
        }
    }

    @Test func step_consumesExactlyOneRequest() {
        var parser = HTTPRequestParser()
        let first = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
        #expect(parser.isIdle)
        let step = utf8(first + first).withUnsafeBytes { parser.receive($0) }
        #expect(step.consumed == first.utf8.count)
        #expect(parser.isIdle)
        _ = utf8("GET").withUnsafeBytes { parser.receive($0) }
        #expect(!parser.isIdle)
    }

    @Test func malformedRequests_areRefused() {
        let cases: [(String, HTTPFailure, Int)] = [
            ("GET / HTTP/1.1\nHost: h\n\n", .bareLineFeed, 400), ("GET / HTTP/1.1\r\nHost: h\nA: b\r\n\r\n", .bareLineFeed, 400),
            ("GET / HTTP/1.1\r\nHost: h\r\nA: b\rc\r\n\r\n", .bareCarriageReturn, 400),
            ("GET /\r\n\r\n", .badRequestLine, 400), ("GET  / HTTP/1.1\r\n", .badTarget, 400),
            ("GET / HTTP/1.1 \r\n", .badRequestLine, 400),
            ("GET / http/1.1\r\n", .badRequestLine, 400), ("GET / HTTP/1.10\r\n", .badRequestLine, 400),
            (" GET / HTTP/1.1\r\n", .badMethod, 400), ("G@T / HTTP/1.1\r\n", .badMethod, 400),
            (String(repeating: "A", count: 33) + " / HTTP/1.1\r\n", .badMethod, 400), ("\r\n\r\n\r\n\r\n\r\n", .badRequestLine, 400),
            ("GET a HTTP/1.1\r\n", .badTarget, 400), ("GET /a b HTTP/1.1\r\n", .badTarget, 400), ("GET /ä HTTP/1.1\r\n", .badTarget, 400),
            ("GET /#x HTTP/1.1\r\n", .badTarget, 400), ("GET * HTTP/1.1\r\n", .badTarget, 400),
            ("CONNECT h:1 HTTP/1.1\r\n", .badTarget, 400),
            ("GET ftp://h/ HTTP/1.1\r\n", .badTarget, 400), ("GET http:///x HTTP/1.1\r\n", .badTarget, 400),
            ("GET /%zz HTTP/1.1\r\n", .badPercentEncoding, 400), ("GET /%f HTTP/1.1\r\n", .badPercentEncoding, 400),
            ("GET /%ff HTTP/1.1\r\n", .badPercentEncoding, 400), ("GET /?a=%c3%28 HTTP/1.1\r\n", .badPercentEncoding, 400),
            ("GET / HTTP/2.0\r\n", .unsupportedVersion, 505), ("PRI * HTTP/2.0\r\n", .unsupportedVersion, 505),
            ("GET / HTTP/0.9\r\n", .unsupportedVersion, 505), ("GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n", .foldedField, 400),
            ("GET / HTTP/1.1\r\n Host: h\r\n\r\n", .foldedField, 400), ("GET / HTTP/1.1\r\nHost : h\r\n\r\n", .badField, 400),
            ("GET / HTTP/1.1\r\nHost\r\n\r\n", .badField, 400), ("GET / HTTP/1.1\r\n: h\r\n\r\n", .badField, 400),
            ("GET / HTTP/1.1\r\nA: \u{01}\r\n\r\n", .badField, 400), ("GET / HTTP/1.1\r\nA\u{00}: b\r\n\r\n", .badField, 400),
            ("GET / HTTP/1.1\r\n\r\n", .badHost, 400), ("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", .badHost, 400),
            ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", .badHost, 400), ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", .badHost, 400),
            (Self.put("Content-Length: 1\r\nContent-Length: 1"), .badContentLength, 400),
            (Self.put("Content-Length: 1\r\nContent-Length: 2"), .badContentLength, 400),
            (Self.put("Content-Length: 1, 1"), .badContentLength, 400), (Self.put("Content-Length: +1"), .badContentLength, 400),
            (Self.put("Content-Length: -1"), .badContentLength, 400), (Self.put("Content-Length: 0x1"), .badContentLength, 400),
            (Self.put("Content-Length:"), .badContentLength, 400),
            (Self.put("Content-Length: 1\r\nTransfer-Encoding: chunked"), .ambiguousLength, 400),
            (Self.put("Transfer-Encoding: gzip, chunked"), .unsupportedTransferEncoding, 501),
            (Self.put("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), .unsupportedTransferEncoding, 501),
            (Self.put("Transfer-Encoding: xchunked"), .unsupportedTransferEncoding, 501),
            ("PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", .unsupportedTransferEncoding, 501),
            (Self.put("Expect: something"), .unknownExpectation, 417),
            (Self.put("Transfer-Encoding: chunked", "x\r\n"), .badChunk, 400),
            (Self.put("Transfer-Encoding: chunked", "\r\n"), .badChunk, 400),
            (Self.put("Transfer-Encoding: chunked", "1\r\nab\r\n"), .badChunk, 400),
            (Self.put("Transfer-Encoding: chunked", "1 x\r\na\r\n"), .badChunk, 400),
            (Self.put("Transfer-Encoding: chunked", "1\na\r\n"), .bareLineFeed, 400),
            (Self.put("Transfer-Encoding: chunked", "1111111111111111\r\n"), .badChunk, 400),
            (Self.put("Transfer-Encoding: chunked", "FFFFFFFFFFFFFFF\r\n"), .bodyTooLarge, 413),
            (Self.put("Content-Length: 99999999999999999999999999"), .bodyTooLarge, 413),
        ]
        for (text, failure, status) in cases {
            #expect(HTTPRequestParser.failure(text) == failure, "\(text)")
            let split = HTTPRequestParser.requests(utf8(text).map { [$0] })
            if case .failure(let bytewise) = split.last { #expect(bytewise == failure, "\(text)") } else { #expect(Bool(false), "\(text)") }
            #expect(failure.status.code == status)
            #expect(!failure.text.contains("\"") && !failure.text.contains("\\"))
        }
    }

    static func put(_ fields: String, _ body: String = "") -> String { "PUT / HTTP/1.1\r\nHost: h\r\n\(fields)\r\n\r\n\(body)" }

    @Test func limits_holdFromBothSides() {
        var limits = HTTPLimits()
        limits.startLineBytes = 20
        limits.fieldBytes = 30
        limits.fieldCount = 2
        limits.bodyBytes = 5
        limits.chunkLineBytes = 4
        func outcome(_ text: String) -> HTTPFailure? {
            let whole = HTTPRequestParser.failure(text, limits: limits)
            if case .failure(let bytewise) = HTTPRequestParser.requests(utf8(text).map { [$0] }, limits: limits).last {
                #expect(bytewise == whole)
            } else {
                #expect(whole == nil)
            }
            return whole
        }
        let host = "Host: h\r\n"  // 9 bytes
        #expect(outcome("GET /1234567 HTTP/1.1\r\n\(host)\r\n") == .targetTooLong)
        #expect(outcome("GET /123456 HTTP/1.1\r\n\(host)\r\n") == nil)
        #expect(outcome("GET /1234567" + String(repeating: "x", count: 11)) == .targetTooLong)
        #expect(outcome("GET / HTTP/1.1\r\n\(host)A: 3456789012345678\r\n\r\n") == nil)
        #expect(outcome("GET / HTTP/1.1\r\n\(host)A: 34567890123456789\r\n\r\n") == .fieldsTooLarge)
        #expect(outcome("GET / HTTP/1.1\r\n\(host)A: 1\r\nB: 2\r\n\r\n") == .fieldsTooLarge)
        #expect(outcome("GET / HTTP/1.1\r\n\(host)A: 1\r\n\r\n") == nil)
        #expect(outcome("PUT / HTTP/1.1\r\n\(host)Content-Length: 5\r\n\r\n12345") == nil)
        #expect(outcome("PUT / HTTP/1.1\r\n\(host)Content-Length: 6\r\n\r\n") == .bodyTooLarge)
        limits.fieldBytes = 60
        limits.fieldCount = 3
        let chunked = "PUT / HTTP/1.1\r\n\(host)Transfer-Encoding: chunked\r\n\r\n"  // 37 bytes of fields
        #expect(outcome(chunked + "2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n") == nil)
        #expect(outcome(chunked + "2\r\nab\r\n4\r\n") == .bodyTooLarge)
        #expect(outcome(chunked + "1;ab\r\na\r\n0\r\n\r\n") == nil)
        #expect(outcome(chunked + "1;abc\r\na\r\n0\r\n\r\n") == .badChunk)
        #expect(outcome(chunked + "0\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n") == nil)
        #expect(outcome(chunked + "0\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n\r\n") == .fieldsTooLarge)
    }

    @Test func afterAFailure_nothingIsRead() {
        var parser = HTTPRequestParser()
        _ = utf8("BAD\r\n").withUnsafeBytes { parser.receive($0) }
        let step = utf8("GET / HTTP/1.1\r\nHost: h\r\n\r\n").withUnsafeBytes { parser.receive($0) }
        guard case .failure(.badRequestLine) = step.event else { return #expect(Bool(false)) }
    }

    @Test func expectContinue_isReportedOnce_andOnlyForABody() {
        var parser = HTTPRequestParser()
        let head = utf8(Self.put("Expect: 100-Continue\r\nContent-Length: 2"))
        let first = (head + utf8("ab")).withUnsafeBytes { parser.receive($0) }
        #expect(first.consumed == head.count)
        guard case .expectsContinue = first.event else { return #expect(Bool(false)) }
        guard case .request(let request) = utf8("ab").withUnsafeBytes({ parser.receive($0) }).event else { return #expect(Bool(false)) }
        #expect(request.body == utf8("ab"))
        guard case .request = utf8(Self.put("Expect: 100-continue\r\nContent-Length: 0")).withUnsafeBytes({ parser.receive($0) }).event
        else { return #expect(Bool(false)) }
    }

    @Test func keepAlive_followsVersionAndConnection() throws {
        let cases = [
            ("1.1", "", true), ("1.1", "Connection: close\r\n", false), ("1.1", "Connection: x, CLOSE\r\n", false), ("1.0", "", false),
            ("1.0", "Connection: keep-alive\r\n", true), ("1.0", "Connection: keep-alive, close\r\n", false),
        ]
        for (version, field, expected) in cases {
            let request = try #require(
                try HTTPRequestParser.requests([utf8("GET / HTTP/\(version)\r\nHost: h\r\n\(field)\r\n")]).first?.get())
            #expect(request.keepsAlive == expected)
        }
    }
}
