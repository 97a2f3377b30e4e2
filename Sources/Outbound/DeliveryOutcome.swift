import CCurl
import Curl
import Glibc

/// What became of one attempt to deliver.
public enum DeliveryOutcome: Sendable, Equatable {
    /// The receiver, or the push service, has accepted it.
    case delivered
    /// The device no longer exists: remove its row.
    case gone
    /// A temporary fault: try again, not before `afterMs` if the receiver has named a time (0 to 24 hours). Nil: the caller's back-off.
    case later(afterMs: Int64?, reason: String)
    /// It will never be accepted: a dead letter.
    case refused(reason: String)
}

extension DeliveryOutcome {
    /// The longest time that a receiver can ask for.
    static let longestWaitMs: Int64 = 86_400_000

    /// The outcome of an answer.
    /// - Parameters:
    ///   - retryAfter: the value of `Retry-After`.
    ///   - excerpt: the beginning of the answer's body, which often names the fault.
    ///   - now: ms since the epoch.
    init(_ service: OutboundRequest.Service, status: Int, retryAfter: String?, excerpt: [UInt8] = [], now: Int64) {
        let text = Self.printable(excerpt)
        let reason = "answered \(status)" + (text.isEmpty ? "" : ": \(text)")
        switch status {
        case 200..<300: self = .delivered
        case 404 where service == .push, 410 where service == .push || service == .webhook: self = .gone
        // Request timeout, too early, too many requests: temporary by definition.
        case 408, 425, 429, 500..<600: self = .later(afterMs: retryAfter.flatMap { Self.waitMs($0, now: now) }, reason: reason)
        case 300..<400: self = .refused(reason: "answered \(status), a redirect, which is not followed")
        default: self = .refused(reason: reason)
        }
    }

    /// The outcome of a transfer without an answer.
    init(fault: CurlFault) {
        switch fault.code {
        case CURLE_URL_MALFORMAT, CURLE_BAD_FUNCTION_ARGUMENT: self = .refused(reason: "not sent: \(fault.text)")
        default: self = .later(afterMs: nil, reason: "not delivered: \(fault.text)")
        }
    }

    /// ms from now, by a number of seconds or a date (RFC 9110 §10.2.3). Nil for anything else.
    static func waitMs(_ value: String, now: Int64) -> Int64? {
        if !value.isEmpty, value.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) {
            // More digits than fit are longer than the limit.
            return min(Int64(value).map { $0.multipliedReportingOverflow(by: 1000) }.map { $0.overflow ? .max : $0.partialValue } ?? .max,
                       longestWaitMs)
        }
        guard let at = dateMs(value) else { return nil }
        return min(max(0, at - now), longestWaitMs)
    }

    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// ms since the epoch of `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7), without its obsolete forms.
    private static func dateMs(_ text: String) -> Int64? {
        let words = text.split(separator: " ")
        guard words.count == 6, words[5] == "GMT", let month = months.firstIndex(of: String(words[2])) else { return nil }
        let numbers = ([words[1], words[3]] + words[4].split(separator: ":")).map { $0.utf8.count <= 4 ? Int32($0) : nil }
        guard numbers.count == 5, let day = numbers[0], let year = numbers[1], let hour = numbers[2], let minute = numbers[3],
              let second = numbers[4]
        else { return nil }
        var parts = tm()
        (parts.tm_year, parts.tm_mon, parts.tm_mday) = (year - 1900, Int32(month), day)
        (parts.tm_hour, parts.tm_min, parts.tm_sec) = (hour, minute, second)
        return Int64(timegm(&parts)) * 1000
    }

    /// At most 200 characters of printable ASCII on one line: it is shown to operators, and comes from strangers.
    private static func printable(_ bytes: [UInt8]) -> String {
        String(decoding: bytes.prefix(200).map { 0x20...0x7E ~= $0 ? $0 : 0x20 }, as: UTF8.self)
            .split(separator: " ").joined(separator: " ")
    }
}
