/// The yearly changes of a time zone's offset: the last line of a TZif file, such as `EET-2EEST,M3.5.0/3,M10.5.0/4` (POSIX TZ with the
/// additions of RFC 8536 §3.3.1).
struct TimeZoneRule: Sendable {
    /// The standard offset in seconds, added to UTC.
    private let standard: Int64
    /// The summer offset, and when summer time begins and ends; nil if the offset never changes.
    private let summer: (offset: Int64, begins: Change, ends: Change)?

    /// One yearly change.
    private struct Change {
        enum Day {
            /// The day of the year, 1 to 365; a leap day is not counted.
            case julian(Int64)
            /// The day of the year, 0 to 365.
            case ordinal(Int64)
            /// The n-th weekday (0: Sunday) of a month; week 5 is the last.
            case weekday(month: Int64, week: Int64, day: Int64)
        }
        let day: Day
        /// Seconds after midnight of that day, in the offset before the change.
        let seconds: Int64

        /// The local time of the change in a year, in seconds since 1970.
        func localTime(of year: Int64) -> Int64 {
            let newYear = CivilDay.number(year, 1, 1)
            let number: Int64
            switch day {
            case .julian(let day): number = newYear + day - 1 + (CivilDay.isLeap(year) && day >= 60 ? 1 : 0)
            case .ordinal(let day): number = newYear + day
            case .weekday(let month, let week, let day):
                let first = CivilDay.number(year, month, 1)
                // 1970-01-01 was a Thursday.
                let weekday = (first + 4) - CivilDay.floored(first + 4, 7) * 7
                var date = 1 + (day - weekday + 7) % 7 + (week - 1) * 7
                if date > CivilDay.length(year, month) { date -= 7 }
                number = first + date - 1
            }
            return number * CivilDay.secondsPerDay + seconds
        }
    }

    /// Parses the line; nil if it is empty or malformed.
    init?(_ text: String) {
        var reader = Reader(rest: Array(text.utf8)[...])
        guard reader.name(), let standard = reader.time() else { return nil }
        self.standard = -standard
        if reader.rest.isEmpty {
            summer = nil
            return
        }
        guard reader.name() else { return nil }
        var offset = self.standard + 3600
        if reader.rest.first != UInt8(ascii: ",") {
            guard let given = reader.time() else { return nil }
            offset = -given
        }
        guard let begins = reader.change(), let ends = reader.change(), reader.rest.isEmpty else { return nil }
        summer = (offset, begins, ends)
    }

    /// The offset at a time in seconds since 1970. O(1)
    func offset(at seconds: Int64) -> Int64 {
        guard let summer else { return standard }
        let year = CivilDay.date(CivilDay.floored(seconds + standard, CivilDay.secondsPerDay)).year
        let begins = summer.begins.localTime(of: year) - standard
        let ends = summer.ends.localTime(of: year) - summer.offset
        let isSummer = begins < ends ? seconds >= begins && seconds < ends : seconds >= begins || seconds < ends
        return isSummer ? summer.offset : standard
    }

    private struct Reader {
        var rest: ArraySlice<UInt8>

        private mutating func consume(_ byte: UInt8) -> Bool {
            guard rest.first == byte else { return false }
            rest.removeFirst()
            return true
        }

        /// Skips the name of an offset: three letters or more, or anything in `<>`.
        mutating func name() -> Bool {
            if consume(UInt8(ascii: "<")) {
                guard let end = rest.firstIndex(of: UInt8(ascii: ">")) else { return false }
                rest = rest[(end + 1)...]
                return true
            }
            let letters = rest.prefix { $0 | 0x20 >= UInt8(ascii: "a") && $0 | 0x20 <= UInt8(ascii: "z") }
            rest = rest[letters.endIndex...]
            return letters.count >= 3
        }

        private mutating func number() -> Int64? {
            let digits = rest.prefix { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }
            guard !digits.isEmpty, digits.count <= 4 else { return nil }
            rest = rest[digits.endIndex...]
            return digits.reduce(0) { $0 * 10 + Int64($1 - UInt8(ascii: "0")) }
        }

        /// `[+-]hh[:mm[:ss]]` in seconds; hours up to 167.
        mutating func time() -> Int64? {
            let isNegative = consume(UInt8(ascii: "-"))
            if !isNegative { _ = consume(UInt8(ascii: "+")) }
            guard var seconds = number(), seconds <= 167 else { return nil }
            seconds *= 3600
            for unit in [60, 1] as [Int64] where consume(UInt8(ascii: ":")) {
                guard let part = number(), part < 60 else { return nil }
                seconds += part * unit
            }
            return isNegative ? -seconds : seconds
        }

        /// `,M3.5.0/3`, `,J60` or `,59/2`.
        mutating func change() -> Change? {
            guard consume(UInt8(ascii: ",")) else { return nil }
            let day: Change.Day
            if consume(UInt8(ascii: "M")) {
                guard let month = number(), consume(UInt8(ascii: ".")), let week = number(), consume(UInt8(ascii: ".")),
                    let weekday = number(),
                    (1...12).contains(month), (1...5).contains(week), (0...6).contains(weekday)
                else { return nil }
                day = .weekday(month: month, week: week, day: weekday)
            } else if consume(UInt8(ascii: "J")) {
                guard let number = number(), (1...365).contains(number) else { return nil }
                day = .julian(number)
            } else {
                guard let number = number(), number <= 365 else { return nil }
                day = .ordinal(number)
            }
            guard consume(UInt8(ascii: "/")) else { return Change(day: day, seconds: 7200) }
            return time().map { Change(day: day, seconds: $0) }
        }
    }
}
