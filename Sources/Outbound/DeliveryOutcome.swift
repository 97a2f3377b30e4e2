import CCurl
import Curl
import Glibc

/// What became of one attempt to deliver.
///
/// | Answer | Outcome |
/// |---|---|
/// | 2xx, even if the rest of the answer never arrives | `delivered` |
/// | 410 for a device's push service or webhook; 404 for a push service | `gone` |
/// | 408, 425, 429, 5xx; no connection, a timeout, a fault of TLS, no HTTP, an unknown host | `later` |
/// | any other 4xx, a redirect, an address that is not allowed | `refused` |
/// | none, because the hub has no room or is stopping | `notAttempted` |
public enum DeliveryOutcome: Sendable, Equatable {
    /// The receiver, or the push service, has accepted it.
    case delivered
    /// The device no longer exists: remove its row.
    case gone
    /// A temporary fault: try again after the caller's back-off, or after `afterMs` (1 ms to 24 hours) if the receiver has named a time
    /// and it is longer. The attempt counts.
    case later(afterMs: Int64?, reason: String)
    /// Nothing was sent, for a reason of this hub: too much waits, or the hub is stopping. It does not count as an attempt, and says
    /// nothing about the receiver.
    case notAttempted(reason: String)
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
        let text = String(printable: excerpt, limit: 200)
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
        case CURLE_FAILED_INIT: self = .notAttempted(reason: fault.text)
        default: self = .later(afterMs: nil, reason: "not delivered: \(fault.text)")
        }
    }

    /// ms from now, by a number of seconds or a date (RFC 9110 §10.2.3). Nil for anything else, and for no time at all: 0 or a past date.
    static func waitMs(_ field: String, now: Int64) -> Int64? {
        let value = field.split(separator: " ").joined(separator: " ")
        guard let wait = statedMs(value, now: now), wait > 0 else { return nil }
        return min(wait, longestWaitMs)
    }

    private static func statedMs(_ value: String, now: Int64) -> Int64? {
        if !value.isEmpty, value.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) {
            // More digits than fit are longer than the limit.
            return Int64(value).map { $0.multipliedReportingOverflow(by: 1000) }.map { $0.overflow ? .max : $0.partialValue } ?? .max
        }
        return dateMs(value).map { $0 - now }
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
}
