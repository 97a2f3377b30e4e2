import HTTPTypes
import Testing
import TestSupport
@testable import WireProtocols

@Suite(.timeLimit(.fuzzing)) struct HTTPFuzzTests {
    private static let tokens = [
        "\r\n", "\r\n\r\n", "\n", "\r", "\0", " ", "\t", ":", "%", "%2F", "%00", "?", "&", "=", "GET ", "HEAD ", " HTTP/1.1", " HTTP/1.0",
        "HTTP/2.0",
        "Host: a\r\n", "Content-Length: 3\r\n", "Content-Length: 18446744073709551616\r\n", "Transfer-Encoding: chunked\r\n",
        "Expect: 100-continue\r\n",
        "Connection: close\r\n", "0\r\n\r\n", "ffffffffffffffff\r\n", "1;a=b\r\n", "http://a/", "*", "HTTP/1.1 101 \r\n",
        "HTTP/1.1 204 \r\n",
    ]

    private static let limits: HTTPLimits = {
        var limits = HTTPLimits()
        limits.startLineBytes = 200
        limits.fieldBytes = 400
        limits.fieldCount = 12
        limits.bodyBytes = 100
        return limits
    }()

    @Test func requests() throws {
        try Fuzzing(name: "http-request", tokens: Self.tokens).run { bytes, generator in
            let whole = HTTPRequestParser.requests([bytes], limits: Self.limits)
            let summary = whole.map { $0.map(\.summary) }
            for pieces in [randomPieces(bytes, &generator), bytes.map { [$0] }]
            where HTTPRequestParser.requests(pieces, limits: Self.limits).map({ $0.map(\.summary) }) != summary {
                return "not the same in pieces"
            }
            for case .success(let request) in whole {
                if request.body.count > Self.limits.bodyBytes { return "body over the limit" }
                if request.fields.count > Self.limits.fieldCount { return "too many fields" }
                if request.host == nil, request.isHTTP11 { return "no host" }
                let sent = request.target.path + (request.target.rawQuery.map { "?" + $0 } ?? "")
                guard let again = try? HTTPTarget(sent), again.segments == request.target.segments, again.query == request.target.query
                else { return "the target is another one when sent again" }
            }
            return nil
        }
    }

    @Test func responses() throws {
        func summary(_ pieces: [[UInt8]]) -> [String] {
            HTTPResponseParser.responses(pieces, limits: Self.limits).map { "\($0.status) \($0.fields) \($0.body) \($0.keepsAlive)" }
        }
        try Fuzzing(name: "http-response", tokens: Self.tokens).run { bytes, generator in
            let whole = summary([bytes])
            for pieces in [randomPieces(bytes, &generator), bytes.map { [$0] }] where summary(pieces) != whole {
                return "not the same in pieces"
            }
            for response in HTTPResponseParser.responses([bytes], limits: Self.limits) {
                if response.body.count > Self.limits.bodyBytes { return "body over the limit" }
                if !(100...999).contains(response.status.code) { return "impossible status" }
            }
            // A body encoded by the server's encoder is decoded to the same bytes.
            let body = Array(bytes.prefix(Self.limits.bodyBytes))
            let encoded = HTTPResponseEncoder.response(.ok, body: body, keepsAlive: true)
            guard let read = HTTPResponseParser.responses([encoded], limits: Self.limits).first, read.body == body else {
                return "encoded otherwise"
            }
            return nil
        }
    }
}
