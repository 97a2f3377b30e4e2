import Glibc

/// Times as text (RFC 3339), in UTC: `2026-09-21T14:13:20.123Z`.
enum RFC3339 {
    /// - Parameter ms: since the epoch.
    static func text(_ ms: Int64) -> String {
        var (seconds, parts) = (time_t(ms / 1000), tm())
        gmtime_r(&seconds, &parts)
        let (year, month, day) = (Int(parts.tm_year) + 1900, Int(parts.tm_mon) + 1, Int(parts.tm_mday))
        let date = [digits(year, 4), digits(month, 2), digits(day, 2)].joined(separator: "-")
        let time = [parts.tm_hour, parts.tm_min, parts.tm_sec].map { digits(Int($0), 2) }.joined(separator: ":")
        return "\(date)T\(time).\(digits(Int(ms % 1000), 3))Z"
    }

    private static func digits(_ number: Int, _ count: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, count - text.utf8.count)) + text
    }
}
