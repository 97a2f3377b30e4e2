import Testing
@testable import WireProtocols

@Suite(.timeLimit(.minutes(30))) struct HTTPTargetTests {
    @Test func path_isSplitAndDecoded() throws {
        let target = try HTTPTarget("/a//b%20c+d/%C3%A4%2F..json/?x=1+2&y=%26%3d&flag&ns=demo&ns=other&=v&&")
        #expect(target.segments == ["a", "b c+d", "ä/..json"])
        #expect(target.hasTrailingSlash)
        #expect(target.value("x") == "1 2")
        #expect(target.value("y") == "&=")
        #expect(target.value("flag") == "")
        #expect(target.value("ns") == "demo")
        #expect(target.value("none") == nil)
        #expect(target.query.count == 6)
        #expect(target.rawQuery == "x=1+2&y=%26%3d&flag&ns=demo&ns=other&=v&&")
    }

    @Test func forms_areToldApart() throws {
        #expect(try HTTPTarget("/").segments.isEmpty)
        #expect(try HTTPTarget("/").hasTrailingSlash)
        #expect(try HTTPTarget("/a").hasTrailingSlash == false)
        let absolute = try HTTPTarget("HTTP://h.example:80?ns=a")
        #expect(absolute.authority == "h.example:80")
        #expect(absolute.path == "/")
        #expect(absolute.value("ns") == "a")
        #expect(try HTTPTarget("*").path == "*")
        #expect(try HTTPTarget("/x.json?orderBy=\"$key\"&startAt=3").value("orderBy") == "\"$key\"")
        #expect(throws: HTTPFailure.badTarget) { try HTTPTarget("") }
        #expect(throws: HTTPFailure.badPercentEncoding) { try HTTPTarget("/a%2") }
        #expect(throws: HTTPFailure.badPercentEncoding) { try HTTPTarget("/a?b=%") }
    }
}
