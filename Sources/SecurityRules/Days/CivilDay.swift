/// Days of the Gregorian calendar as numbers since 1970-01-01 and as texts such as `2026-11-22`.
enum CivilDay {
    /// The days of the years 0 to 9999, whose texts have ten characters.
    private static let numbers: ClosedRange<Int64> = -719_528...2_932_896
    static let secondsPerDay: Int64 = 86_400

    /// The text of a day; nil outside the years 0 to 9999.
    static func text(_ number: Int64) -> String? {
        guard numbers.contains(number) else { return nil }
        let (year, month, day) = date(number)
        let digits = [year / 1000, year / 100 % 10, year / 10 % 10, year % 10, -1, month / 10, month % 10, -1, day / 10, day % 10]
        return String(unsafeUninitializedCapacity: 10) { bytes in
            for (i, digit) in digits.enumerated() { bytes[i] = digit < 0 ? UInt8(ascii: "-") : UInt8(ascii: "0") + UInt8(digit) }
            return 10
        }
    }

    /// The day number of a text; nil unless it is a valid date of that form.
    static func number(_ text: UnsafeBufferPointer<UInt8>) -> Int64? {
        guard text.count == 10 else { return nil }
        var parts: (Int64, Int64, Int64) = (0, 0, 0)
        for (i, byte) in text.enumerated() {
            if i == 4 || i == 7 {
                guard byte == UInt8(ascii: "-") else { return nil }
                continue
            }
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
            let digit = Int64(byte - UInt8(ascii: "0"))
            switch i {
            case 0..<4: parts.0 = parts.0 * 10 + digit
            case 5..<7: parts.1 = parts.1 * 10 + digit
            default: parts.2 = parts.2 * 10 + digit
            }
        }
        let (year, month, day) = parts
        guard (1...12).contains(month), day >= 1, day <= length(year, month) else { return nil }
        return number(year, month, day)
    }

    static func isLeap(_ year: Int64) -> Bool { year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) }

    /// Days of a month, 1 to 12.
    static func length(_ year: Int64, _ month: Int64) -> Int64 {
        switch month {
        case 2: isLeap(year) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    /// Days since 1970-01-01. Years are counted from March, so that the leap day is the last.
    static func number(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        let shifted = month <= 2 ? year - 1 : year
        let era = floored(shifted, 400)
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    /// The year, month and day of a number.
    static func date(_ number: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let shifted = number + 719_468
        let era = floored(shifted, 146_097)
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let part = (5 * dayOfYear + 2) / 153
        let month = part < 10 ? part + 3 : part - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * part + 2) / 5 + 1)
    }

    /// Division that rounds down.
    static func floored(_ a: Int64, _ b: Int64) -> Int64 { a >= 0 ? a / b : (a - b + 1) / b }
}
