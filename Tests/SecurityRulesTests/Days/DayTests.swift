import Foundation
import Testing
import TestSupport

@testable import SecurityRules

/// Days and time zones compared with Foundation, and case folding of all characters.
@Suite(.timeLimit(.minutes(30))) struct DayTests {
    @Test func dayNumbers_areTheirTextsNumbers_forAllDays() {
        var next: Int64 = -719_528
        for year in 0...9999 as ClosedRange<Int64> where year < 30 || year % 97 == 0 || (1890...2110).contains(year) {
            next = CivilDay.number(year, 1, 1)
            for month in 1...12 as ClosedRange<Int64> {
                for day in 1...CivilDay.length(year, month) {
                    #expect(CivilDay.date(next) == (year, month, day))
                    guard let text = CivilDay.text(next) else { return #expect(Bool(false), "no text") }
                    var bytes = Array(text.utf8)
                    #expect(bytes.withUnsafeMutableBufferPointer { CivilDay.number(UnsafeBufferPointer($0)) } == next)
                    next += 1
                }
            }
            #expect(next == CivilDay.number(year + 1, 1, 1))
        }
        #expect(CivilDay.text(-719_528) == "0000-01-01" && CivilDay.text(-719_529) == nil)
        #expect(CivilDay.text(2_932_896) == "9999-12-31" && CivilDay.text(2_932_897) == nil)
    }

    @Test(arguments: [
        "Europe/Athens", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Casablanca", "America/Sao_Paulo", "Asia/Tokyo",
        "Pacific/Apia", "Europe/Dublin", "UTC", "Asia/Gaza", "America/Argentina/Buenos_Aires", "Etc/GMT+5",
    ]) func offsets_areFoundations(_ name: String) throws {
        let table = try #require(TimeZoneTable.named(name))
        let zone = try #require(TimeZone(identifier: name))
        var random = SeededRandom(17)
        var times = (0..<1_000).map { _ in Int64(random.below(4_000_000_000)) - 400_000_000 }
        // Close to the clock changes of some years.
        for year in [1975, 1996, 2005, 2026, 2037, 2038, 2060, 2099] {
            let start = Date(timeIntervalSince1970: Double(CivilDay.number(Int64(year), 1, 1) * 86_400))
            if let change = zone.nextDaylightSavingTimeTransition(after: start) {
                let at = Int64(change.timeIntervalSince1970.rounded())
                times += [at - 1, at, at + 1]
            }
        }
        for time in times {
            let expected = zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(time)))
            #expect(table.offset(at: time) == Int64(expected), "\(name) at \(time)")
        }
    }

    @Test(arguments: ["", "/", "a//b", "Europe/", "/etc/passwd", "..", "Europe/../UTC", "Europe", "posixrules\0",
        String(repeating: "a", count: 65)])
    func name_isRefused_thatIsNoZone(_ name: String) { #expect(TimeZoneTable.named(name) == nil) }

    @Test func ruleOfAZone_isRefused_whenItIsNone() {
        for text in ["", "E", "EET", "EET-", "EET-2EEST", "EET-2EEST,M3.5.0",
            "EET-2EEST,M13.5.0,M10.5.0", "EET-2EEST,M3.6.0,M10.5.0", "EET-2x"] {
            #expect(TimeZoneRule(text) == nil, "\(text)")
        }
        #expect(TimeZoneRule("EET-2")?.offset(at: 0) == 7200)
        #expect(TimeZoneRule("<-03>3")?.offset(at: 0) == -10_800)
        // 2026-03-29 01:00 UTC and 2026-10-25 01:00 UTC.
        let athens = TimeZoneRule("EET-2EEST,M3.5.0/3,M10.5.0/4")
        #expect([1_774_745_999, 1_774_746_000, 1_792_889_999, 1_792_890_000].map { athens?.offset(at: $0) } == [7200, 10_800, 10_800, 7200])
        // In the southern hemisphere summer spans the new year; rules may give days by number.
        let south = TimeZoneRule("AAA3BBB,J300/0,59/0")
        #expect(south?.offset(at: CivilDay.number(2026, 1, 10) * 86_400) == -7200)
        #expect(south?.offset(at: CivilDay.number(2026, 6, 1) * 86_400) == -10_800)
    }

    @Test func faultyFile_isNoZone() {
        guard let bytes = FileManager.default.contents(atPath: "/usr/share/zoneinfo/Europe/Athens").map(Array.init) else { return }
        #expect(TimeZoneTable("x", bytes) != nil)
        for length in stride(from: 0, to: bytes.count - 30, by: 7) { #expect(TimeZoneTable("x", Array(bytes.prefix(length))) == nil) }
        var random = SeededRandom(5)
        for _ in 0..<2_000 {
            var broken = bytes
            for _ in 0...random.below(4) { broken[random.below(broken.count)] = UInt8(random.below(256)) }
            _ = TimeZoneTable("x", broken)?.day(1e12)
        }
    }

    /// Folded text stays unchanged by folding, and its upper case folds to the same text.
    @Test func fold_isDoneAtOnce_forEveryCharacter() {
        for value in 0..<0x30000 as Range<UInt32> {
            guard let scalar = Unicode.Scalar(value), scalar.properties.generalCategory != .unassigned else { continue }
            let folded = TextFolding.fold(String(scalar))
            if TextFolding.fold(folded) != folded { #expect(Bool(false), "U+\(String(value, radix: 16)): \(folded)") }
            // The combining iota below a letter becomes a separate letter in upper case.
            if String(scalar).decomposedStringWithCanonicalMapping.unicodeScalars.contains("\u{345}") { continue }
            let upper = TextFolding.fold(scalar.properties.uppercaseMapping)
            if upper != folded { #expect(Bool(false), "upper U+\(String(value, radix: 16)): \(upper) \(folded)") }
        }
        let text = "Ὀδυσσεύς ΟΔΥΣΣΕΎΣ Žluťoučký"
        #expect(TextFolding.fold(text) == "οδυσσευσ οδυσσευσ zlutoucky")
    }
}
