import JSONTree
import Testing
import TestSupport

@testable import WireProtocols

/// Requests in the SDKs' form are read in one pass up to their body, all others member by member. Both give the same result.
@Suite struct RequestHeadTests {
    private static let numbers = [
        "1", "0", "01", "-1", "-0", "7.0", "7.5", "1e2", "1e400", "9223372036854775807", "9223372036854775808", "999999999999999999",
        "1000000000000000000", "\"1\"", "null", " 3", "3 ", "", "1.", "1.0e0", "[]",
    ]
    private static let actions = [
        #""p""#, #""g""#, #""m""#, #""s""#, #""\u0070""#, #""""#, #""auth""#, #""abcdefghijklmnopq""#, "1", #" "p""#, #""p" "#,
        "\"\u{E9}\"", "\"\u{7F}\"", "null", #""o""#, #""q""#,
    ]
    private static let bodies = [
        #"{"p":"/a/b","d":{"x":1}}"#, #"{"p":"a"}"#, #"{"d":1,"p":"a"}"#, "null", "[]", "1", "{", "{}", #" {"p":"/"} "#,
        #"{"p":"a","p":"b","d":1}"#, #"{"p":"a","q":{},"d":-0.0}"#, #"{"p":"a","q":{"l":1}}"#, "{,}", #""x""#,
    ]
    private static let tails = [
        "", #","r":9"#, #","a":"g""#, #","b":{"p":"z","d":2}"#, #","x":[[]]"#, ",", " ", #","r":null"#, #","b":1"#,
    ]
    private static let ends = [
        "}}", #"},"t":"c"}"#, #"},"d":{"r":5,"a":"g","b":{"p":"q"}}}"#, "} }", "}} ", "}}x", "}", "},}", #"},"d":1}"#, "}}}",
    ]

    @Test(arguments: Array(1...8) as [UInt64]) func head_readAtOnce_isAsReadMemberByMember(seed: UInt64) {
        var random = SeededRandom(seed)
        for _ in 0..<10_000 {
            var rest = #""t":"d","d":{"r":"# + random.pick(Self.numbers) + #","a":"# + random.pick(Self.actions) + #","b":"#
            rest += random.pick(Self.bodies) + random.pick(Self.tails) + random.pick(Self.ends)
            if random.chance(10) { rest = String(rest.prefix(random.below(rest.count))) }
            // A leading space has the message read member by member.
            let (atOnce, slowly) = (RealtimeMessage.parse("{" + rest), RealtimeMessage.parse("{ " + rest))
            guard Self.text(atOnce, 0) == Self.text(slowly, 1) else {
                Issue.record("{\(rest): \(Self.text(atOnce, 0)), not \(Self.text(slowly, 1))")
                return
            }
        }
    }

    /// - Parameter shift: bytes before the same message.
    private static func text(_ result: Result<RealtimeMessage, RealtimeError>, _ shift: Int) -> String {
        switch result {
        case .success(.request(let request)): "\(request.number) \(request.action.summary)"
        case .success(let message): "\(message)"
        case .failure(.malformed(let offset)): "malformed \(offset - shift)"
        case .failure(.notAnEnvelope(let offset)): "not \(offset - shift)"
        case .failure(let other): "\(other)"
        }
    }
}
