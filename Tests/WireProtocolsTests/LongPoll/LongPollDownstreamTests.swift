import JSONTree
import Testing
import TestSupport
@testable import WireProtocols

/// From messages to answers (contract §1.8, checks 19–22).
@Suite(.timeLimit(.minutes(30))) struct LongPollDownstreamTests {
    private static func opened() -> LongPollDownstream {
        var downstream = LongPollDownstream(opening: 0, preamble: utf8("open;"))
        downstream.send(utf8("{\"hello\":1}"))
        _ = downstream.flush()
        return downstream
    }

    private static func shown(_ answers: [LongPollDownstream.Answer]) -> [String] { answers.map { "\($0.ticket): \(text($0.script))" } }

    @Test func check19_opening_isAnsweredWithScriptAndHelloAsNumberZero() {
        let key = LongPollKey(id: "17", password: "sesame")
        var downstream = LongPollDownstream(opening: 0, preamble: LongPollScript.open(callback: "42", key: key))
        downstream.send(utf8("{\"t\":\"c\"}"))
        let answers = downstream.flush()
        let script = answers.first.map { text($0.script) } ?? ""
        #expect(script.contains("function pLPCommand(c,a1,a2,a3,a4)") && script.contains("parent.window[\"pLPCommand42\"]"))
        #expect(script.contains("function pRTLPCB(n,d)") && script.contains("parent.window[\"pRTLPCB42\"]"))
        #expect(script.hasSuffix("pLPCommand('start',\"17\",\"sesame\");pRTLPCB(0,[{\"t\":\"c\"}]);"))
        #expect(!script.contains("\n\n") && !downstream.isHolding)
    }

    @Test func poll_withMessagesWaiting_isAnsweredAtOnce() {
        var downstream = Self.opened()
        downstream.send(utf8("{}"))
        downstream.send(utf8("{\"a\":1}"))
        #expect(downstream.flush() == [] && downstream.queuedBytes == 9)
        #expect(Self.shown(downstream.poll(1, serial: 5)) == ["1: pRTLPCB(1,[{},{\"a\":1}]);"])
        #expect(downstream.queuedBytes == 0)
    }

    @Test func pollThatBringsRequests_takesTheirAnswersAlong() {
        var downstream = Self.opened()
        downstream.send(utf8("{\"old\":1}"))
        #expect(downstream.poll(1, serial: 5, bringsRequests: true) == [] && downstream.isHolding)
        downstream.send(utf8("{\"answer\":2}"))
        #expect(Self.shown(downstream.flush()) == ["1: pRTLPCB(1,[{\"old\":1},{\"answer\":2}]);"])
    }

    @Test func poll_withoutMessages_isHeldUntilOneComes() {
        var downstream = Self.opened()
        #expect(downstream.poll(1, serial: 5) == [] && downstream.isHolding)
        #expect(downstream.flush() == [])
        downstream.send(utf8("{}"))
        #expect(Self.shown(downstream.flush()) == ["1: pRTLPCB(1,[{}]);"])
    }

    @Test func check21_newerPoll_releasesTheOlder() {
        var downstream = Self.opened()
        _ = downstream.poll(1, serial: 5)
        #expect(Self.shown(downstream.poll(2, serial: 6)) == ["1: pRTLPCB(1,[]);"])
        downstream.send(utf8("{}"))
        #expect(Self.shown(downstream.poll(3, serial: 7)) == ["2: pRTLPCB(2,[{}]);"])
        #expect(downstream.isHolding)
    }

    @Test func olderPollThatWasOvertaken_releasesBoth() {
        var downstream = Self.opened()
        _ = downstream.poll(1, serial: 6)
        #expect(Self.shown(downstream.poll(2, serial: 5)) == ["1: pRTLPCB(1,[]);", "2: pRTLPCB(2,[]);"])
        #expect(!downstream.isHolding)
    }

    @Test func pollThatComesAgainWhileHeld_takesNoNumber() {
        var downstream = Self.opened()
        _ = downstream.poll(1, serial: 5)
        #expect(Self.shown(downstream.poll(2, serial: 5)) == ["1: "])
        downstream.send(utf8("{}"))
        #expect(Self.shown(downstream.flush()) == ["2: pRTLPCB(1,[{}]);"])
    }

    @Test func pollThatComesAgainAfterItsAnswer_endsTheSession() {
        var downstream = Self.opened()
        _ = downstream.poll(1, serial: 5)
        _ = downstream.poll(2, serial: 6)
        #expect(Self.shown(downstream.poll(3, serial: 5)) == ["2: pLPCommand('close');", "3: pLPCommand('close');"])
        #expect(downstream.hasClosed)
        downstream.send(utf8("{}"))
        #expect(Self.shown(downstream.poll(4, serial: 7)) == ["4: pLPCommand('close');"])
    }

    @Test func check20_numbers_haveNoGapsWhateverHappens() throws {
        var generator = SeededRandom(20)
        var downstream = Self.opened()
        var (ticket, serial, sent) = (1, Int64(100), 0)
        var expected = 1
        var heard: [String] = []
        func receive(_ answers: [LongPollDownstream.Answer]) throws {
            for answer in answers {
                let script = text(answer.script)
                let prefix = "pRTLPCB(\(expected),["
                try #require(script.hasPrefix(prefix) && script.hasSuffix("]);"))
                expected += 1
                heard += script.dropFirst(prefix.count).dropLast(3).split(separator: ",").map(String.init)
            }
        }
        for _ in 0..<fuzzRounds(2000) {
            switch generator.below(5) {
            case 0, 1:
                downstream.send(utf8("{\"n\":\(sent)}"))
                sent += 1
            case 2: try receive(downstream.flush())
            case 3: try receive(downstream.release())
            default:
                serial += 1
                // Sometimes two polls arrive in the wrong order.
                if generator.below(6) == 0 {
                    try receive(downstream.poll(ticket, serial: serial + 1))
                    try receive(downstream.poll(ticket + 1, serial: serial))
                    (ticket, serial) = (ticket + 2, serial + 1)
                } else {
                    try receive(downstream.poll(ticket, serial: serial))
                    ticket += 1
                }
            }
        }
        try receive(downstream.poll(ticket, serial: serial + 1))
        try receive(downstream.flush())
        #expect(heard == (0..<sent).map { "{\"n\":\($0)}" })
    }

    @Test func finish_saysTheLastMessageAndItsNumber() {
        var downstream = Self.opened()
        _ = downstream.poll(1, serial: 5)
        downstream.send(utf8("{}"))
        #expect(Self.shown(downstream.finish(with: utf8("{\"n\":1}"))) == ["1: pRTLPCB(1,[{},{\"n\":1}]);pLPCommand('close',1);"])
        downstream.send(utf8("{\"late\":1}"))
        #expect(Self.shown(downstream.poll(2, serial: 6)) == ["2: pLPCommand('close',1);"])
    }

    @Test func finish_withoutAPoll_waitsForOne() {
        var downstream = Self.opened()
        #expect(downstream.finish(with: utf8("{}")) == [])
        #expect(Self.shown(downstream.poll(2, serial: 6)) == ["2: pRTLPCB(1,[{}]);pLPCommand('close',1);"])
    }

    @Test func close_answersTheHeldPoll() {
        var downstream = Self.opened()
        _ = downstream.poll(1, serial: 5)
        #expect(Self.shown(downstream.close()) == ["1: pLPCommand('close');"])
        #expect(downstream.release() == [] && downstream.hasClosed)
    }

    // MARK: Scripts

    @Test(arguments: [
        (#"{"a":"</script>"}"#, #"{"a":"<\/script>"}"#),
        ("{\"a\":\"\u{2028}x\u{2029}\u{2027}\"}", "{\"a\":\"\\u2028x\\u2029\u{2027}\"}"),
        (#"{"__proto__":{"a":1}}"#, #"{["__proto__"]:{"a":1}}"#),
        (#"{"a":"__proto__","b":["__proto__"]}"#, #"{"a":"__proto__","b":["__proto__"]}"#),
        (#"{"x\"__proto__":1,"a/__proto__":2}"#, #"{"x\"__proto__":1,"a/__proto__":2}"#),
        ("{\"a\":\"<\"}", "{\"a\":\"<\"}"),
    ])
    func messages_areSafeInsideAScript(_ json: String, _ script: String) {
        #expect(text(LongPollScript.messages([utf8(json)], number: 3)) == "pRTLPCB(3,[\(script)]);")
    }

    @Test func check25_page_saysGoodbyeWhenItIsLeft() {
        let page = text(LongPollScript.disconnectPage(key: LongPollKey(id: "17", password: "sesame")))
        #expect(page.hasPrefix("<!DOCTYPE html>"))
        #expect(page.contains("'/.lp?disconn=t&id=17&pw=sesame'") && page.contains("addEventListener('pagehide'"))
    }

    @Test func unwrapper_givesTheMessagesThatWereFramed() {
        let long = utf8("{\"x\":\"" + String(repeating: "ä\u{1F600}", count: 20_000) + "\"}")
        let messages = [utf8("{}"), long, utf8("{\"a\":1}")]
        let frames = messages.flatMap { RealtimeFraming.frames(for: $0) }
        var unwrapper = FrameUnwrapper()
        #expect(unwrapper.messages(in: frames) == messages)
        var piecewise = FrameUnwrapper()
        #expect(piecewise.messages(in: Array(frames[..<70_000])) + piecewise.messages(in: Array(frames[70_000...])) == messages)
    }
}
