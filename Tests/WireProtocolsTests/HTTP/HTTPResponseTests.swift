import HTTPTypes
import Testing
@testable import WireProtocols

@Suite(.timeLimit(.minutes(30))) struct HTTPResponseTests {
    @Test func response_isWrittenExactly() {
        let bytes = HTTPResponseEncoder.response(
            .ok, fields: [.contentType: "text/plain", .contentLength: "99"], body: utf8("hi"), date: "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(text(bytes) ==
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 2\r\nConnection: "
                + "keep-alive\r\n\r\nhi")
        #expect(text(HTTPResponseEncoder.response(.noContent, body: utf8("x"), keepsAlive: false)) ==
            "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        #expect(text(HTTPResponseEncoder.response(.ok, body: utf8("abc"), isHead: true)) ==
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\n")
    }

    @Test func fieldValues_cannotBreakOutOfTheirLine() {
        let bytes = HTTPResponseEncoder.response(.ok, fields: [.location: "/a\r\nSet-Cookie: x"])
        #expect(!text(bytes).contains("\r\nSet-Cookie"))
    }

    @Test func failure_isJSONAndCloses() throws {
        let response = try #require(HTTPResponseParser.responses([HTTPResponseEncoder.failure(.bodyTooLarge)]).first)
        #expect(response.status.code == 413)
        #expect(!response.keepsAlive)
        #expect(text(response.body) == "{\n  \"error\" : \"Data to write exceeds the maximum size that can be modified with a single "
            + "request.\"\n}\n")
    }

    static let pipeline =
        text(HTTPResponseEncoder.continueResponse) + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"
        + "HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n" + text(
            HTTPResponseEncoder.chunk(utf8("hello "))) + text(HTTPResponseEncoder.chunk([]))
        + text(
            HTTPResponseEncoder.chunk(utf8("world"))
        ) + text(HTTPResponseEncoder.lastChunk) + "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"
        + "HTTP/1.0 404 Gone Away\r\n\r\nuntil the end"

    @Test func responses_areTheSame_howeverTheyAreSplit() {
        for pieces in feedings(of: utf8(Self.pipeline)) {
            let heard = HTTPResponseParser.responses(pieces).map { "\($0.status.code) \(text($0.body)) \($0.keepsAlive)" }
            #expect(heard == ["200 ab true", "200 hello world true", "304  true", "404 until the end false"])
        }
    }

    @Test func malformedStatusLines_areRefused() {
        for (line, failure) in [
            ("HTTP/1.1 20 OK\r\n", HTTPFailure.badStatusLine), ("HTTP/1.1 200OK\r\n", .badStatusLine),
            ("HTTP/2.0 200 OK\r\n", .unsupportedVersion),
            ("HTTP/1.1 099 X\r\n", .badStatusLine), ("ICY 200 OK\r\n", .badStatusLine), ("HTTP/1.1 200 OK\n", .bareLineFeed),
        ] {
            var parser = HTTPResponseParser()
            guard case .failure(failure) = utf8(line).withUnsafeBytes({ parser.receive($0) }).event else {
                #expect(Bool(false), "\(line)")
                continue
            }
        }
    }

    @Test func answerToHead_hasNoBody() {
        var parser = HTTPResponseParser()
        parser.expectAnswerToHead()
        let bytes = utf8("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        guard case .response(let response) = bytes.withUnsafeBytes({ parser.receive($0) }).event else { return #expect(Bool(false)) }
        #expect(response.body.isEmpty)
    }
}
