import Testing

@testable import Outbound

/// Texts are cut where a channel's limit requires it, and never within a character.
struct PlainTextTests {
    @Test func text_isCutBetweenCharacters() {
        #expect("abc".cut(toBytes: 3) == "abc")
        #expect("abcd".cut(toBytes: 3) == "")
        #expect("abcde".cut(toBytes: 4) == "a…")
        #expect("ααααα".cut(toBytes: 8) == "αα…")
        #expect("ααααα".cut(toBytes: 9) == "ααα…")
        #expect("👨‍👩‍👧x".cut(toBytes: 18) == "👨\u{200D}👩\u{200D}…")
        #expect(("e" + String(repeating: "\u{301}", count: 50)).cut(toBytes: 10) == "e\u{301}\u{301}\u{301}…")
        for limit in 0...40 {
            let cut = "Γεια σου, κόσμε 👋 και καλημέρα".cut(toBytes: limit)
            #expect(cut.utf8.count <= limit)
        }
    }

    @Test func escapedText_isCutByItsBytesInJSON() {
        #expect("\"\"\"\"".cut(toEscapedBytes: 8) == "\"\"\"\"")
        for (part, count) in [("\u{1}", 900), ("α\"", 300), ("x", 5_000), ("a\nb", 1)] {
            let text = String(repeating: part, count: count)
            for limit in [0, 1, 3, 4, 5, 17, 500, 4_000] {
                let cut = text.cut(toEscapedBytes: limit)
                #expect(cut.escapedBytes <= limit)
                // Little more is cut than needed: the ellipsis, and what a step of the search may take beyond.
                #expect(cut == text || cut.escapedBytes >= limit - 16, "\(limit): \(cut.escapedBytes)")
            }
        }
    }

    @Test func id_isKeptOrHashed() {
        #expect("Ab-_9".urlSafe(limit: 32) == "Ab-_9")
        #expect(String(repeating: "a", count: 32).urlSafe(limit: 32).utf8.count == 32)
        for text in ["", "a b", "ä", "a/b", String(repeating: "a", count: 33)] {
            let safe = text.urlSafe(limit: 32)
            #expect(safe != text && safe.utf8.count == 32 && safe.urlSafe(limit: 32) == safe)
            #expect(safe == text.urlSafe(limit: 32))
        }
        #expect("a b".urlSafe(limit: 32) != "a/b".urlSafe(limit: 32))
    }

    @Test func life_isInSecondsUpToFourWeeks() {
        func life(_ expiresAt: Int64?) -> Int64 {
            Notification(id: "1", title: "x", expiresAt: expiresAt).lifeSeconds(now: Samples.now)
        }
        #expect(life(nil) == 2_419_200)
        #expect(life(Samples.now) == 0 && life(Samples.now - 1) == 0 && life(.min) == 0)
        #expect(life(Samples.now + 1) == 1 && life(Samples.now + 60_000) == 60)
        #expect(life(.max) == 2_419_200)
    }
}
