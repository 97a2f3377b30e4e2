import Accounts
import JSONTree

extension AccountsFile {
    /// The limits of attempts; rates are written as `100/15min`.
    func read(_ section: inout JSONSection, into throttle: inout ThrottleSettings, _ network: inout Network) {
        if let count = section.number("free-failures", 1...1_000) { throttle.freeFailures = Int64(count) }
        if let seconds = section.number("longest-wait-seconds", 1...86_400) { throttle.longestDelayMs = Int64(seconds) * 1000 }
        if let count = section.number("failures-until-locked", 5...100_000) { throttle.mostFailures = Int64(count) }
        if let seconds = section.number("lock-seconds", 1...2_592_000) { throttle.lockMs = Int64(seconds) * 1000 }
        if let rate = section.rate("failures-per-account-and-network") { throttle.failuresOfPair = rate }
        if let rate = section.rate("failures-per-network") { throttle.failuresOfAddress = rate }
        if let rate = section.rate("passwords-per-network") { throttle.passwordsOfAddress = rate }
        if let count = section.number("passwords-at-once-per-network", 1...100_000) { throttle.passwordsAtOnce = count }
        if let rate = section.rate("sign-ups-per-network") { throttle.signUps = rate }
        if let rate = section.rate("mails-per-address") { throttle.mailsTo = rate }
        if let rate = section.rate("mails-per-network") { throttle.mailsFrom = rate }
        if let rate = section.rate("codes-per-network") { throttle.codes = rate }
        network.requestsOfNetwork = section.number("requests-at-once-per-network", 1...1_000_000)
        section.end()
    }
}

extension JSONSection {
    /// `100/h`, `20/15min`: a number of attempts in a time.
    fileprivate mutating func rate(_ name: String) -> ThrottleSettings.Rate? {
        guard let text = text(name, "a rate such as \"100/h\" or \"20/15min\"") else { return nil }
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        let units: [Substring: Int64] = ["s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000]
        if parts.count == 2, let count = Int64(parts[0]), 1...1_000_000 ~= count {
            let unit = parts[1].drop { $0.isNumber }
            let times = parts[1].count == unit.count ? 1 : Int64(parts[1].dropLast(unit.count))
            if let times, 1...10_000 ~= times, let ms = units[unit] { return ThrottleSettings.Rate(count, perMs: times * ms) }
        }
        addFault(name, "expected a rate such as \"100/h\" or \"20/15min\": a count of 1…1000000, and s, min, h or d")
        return nil
    }
}
