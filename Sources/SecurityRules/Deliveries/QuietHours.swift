import JSONTree

extension RuleDelivery.Notice {
    /// The first time from `ms` on at which it may be sent: outside the quiet hours, or at once if it is urgent. Ms since the epoch.
    public func allowed(from ms: Int64) -> Int64 {
        guard !isUrgent, quiet.exists else { return ms }
        return QuietHours(from: quiet.child("from"), to: quiet.child("to"), zone: quiet.child("zone"))?.next(ms) ?? ms
    }
}

/// The hours of a day in which a person wants no sound.
struct QuietHours {
    /// Minutes after local midnight, 0 to 1,439. They may span midnight.
    let from: Int64
    let to: Int64
    let zone: TimeZoneTable

    /// Nil for values that are no times, such as absent ones.
    init?(from: Node, to: Node, zone: Node) {
        guard let from = Self.minutes(from), let to = Self.minutes(to), from != to else { return nil }
        var table = TimeZoneTable.named("UTC")
        if case .string(let name) = zone.leaf, let named = TimeZoneTable.named(name.string) { table = named }
        guard let table else { return nil }
        (self.from, self.to, self.zone) = (from, to, table)
    }

    /// A number of minutes, or a text such as `7:05` or `22:30`.
    private static func minutes(_ value: Node) -> Int64? {
        switch value.leaf {
        case .int(let minutes): return 0..<1_440 ~= minutes ? minutes : nil
        case .string(let text):
            let parts = text.string.split(separator: ":", omittingEmptySubsequences: false)
            guard parts.count == 2, 1...2 ~= parts[0].utf8.count, parts[1].utf8.count == 2,
                parts.allSatisfy({ $0.utf8.allSatisfy { 0x30...0x39 ~= $0 } }), let hours = Int64(parts[0]), let minutes = Int64(parts[1]),
                hours < 24, minutes < 60
            else { return nil }
            return hours * 60 + minutes
        default: return nil
        }
    }

    /// The first time from `ms` on that is not in the quiet hours. Ms since the epoch.
    func next(_ ms: Int64) -> Int64 {
        let seconds = CivilDay.floored(ms, 1000)
        let local = seconds + zone.offset(at: seconds)
        let minute = CivilDay.floored(local, 60) - CivilDay.floored(local, CivilDay.secondsPerDay) * 1_440
        let isQuiet = from < to ? from <= minute && minute < to : from <= minute || minute < to
        guard isQuiet else { return ms }
        let end = CivilDay.floored(local, 60) * 60 + (to - minute + 1_440) % 1_440 * 60
        // The offset may change in these hours.
        var utc = end - zone.offset(at: seconds)
        utc = end - zone.offset(at: utc)
        return utc * 1000
    }
}
