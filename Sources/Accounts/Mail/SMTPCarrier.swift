import CCurl
import Dispatch

/// Hands letters to a mail server through the system's libcurl: one connection for each letter. The server's answers are not
/// repeated in faults, only their numbers: they may quote what they were told.
public final class SMTPCarrier: LetterCarrier {
    private let settings: SMTPSettings
    private let now: @Sendable () -> Int64
    /// libcurl blocks: not the threads of async functions. `Post` bounds how many there are.
    private let queue = DispatchQueue(label: "vigla.mail", attributes: .concurrent)

    /// - Parameter now: the wall clock in ms since the epoch.
    public init(_ settings: SMTPSettings, now: @escaping @Sendable () -> Int64) {
        self.settings = settings
        self.now = now
    }

    public func carry(_ letter: Letter) async throws(LetterFault) {
        let message = letter.message(from: settings.sender, date: now(), id: Self.randomID())
        let (settings, to) = (settings, letter.to)
        let fault: LetterFault? = await withCheckedContinuation { continuation in
            queue.async { continuation.resume(returning: Self.transfer(message, to: to, settings)) }
        }
        if let fault { throw fault }
    }

    private static func transfer(_ message: [UInt8], to: MailAddress, _ settings: SMTPSettings) -> LetterFault? {
        guard globalInit == CURLE_OK, let handle = curl_easy_init() else { return .later("libcurl cannot be set up") }
        defer { curl_easy_cleanup(handle) }
        let recipients = curl_slist_append(nil, "<\(to.text)>")
        defer { curl_slist_free_all(recipients) }
        let source = Source(message)
        let scheme = settings.security == .tls ? "smtps" : "smtp"

        var status = CURLE_OK
        func set(_ code: CURLcode) { if status == CURLE_OK { status = code } }
        // Behind the slash: the name we greet with.
        set(vigla_curl_set_string(handle, CURLOPT_URL, "\(scheme)://\(settings.host):\(settings.port)/\(settings.sender.address.domain)"))
        set(vigla_curl_set_string(handle, CURLOPT_PROTOCOLS_STR, "smtp,smtps"))
        set(vigla_curl_set_long(handle, CURLOPT_NOSIGNAL, 1))
        set(vigla_curl_set_long(handle, CURLOPT_CONNECTTIMEOUT, settings.connectSeconds))
        set(vigla_curl_set_long(handle, CURLOPT_TIMEOUT, settings.letterSeconds))
        if settings.security == .startTLS { set(vigla_curl_set_long(handle, CURLOPT_USE_SSL, Int(CURLUSESSL_ALL.rawValue))) }
        set(vigla_curl_set_long(handle, CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2)))
        if let file = settings.certificates { set(vigla_curl_set_string(handle, CURLOPT_CAINFO, file)) }
        if let user = settings.user, let password = settings.password {
            set(vigla_curl_set_string(handle, CURLOPT_USERNAME, user))
            set(vigla_curl_set_string(handle, CURLOPT_PASSWORD, password))
        }
        set(vigla_curl_set_string(handle, CURLOPT_MAIL_FROM, "<\(settings.sender.address.text)>"))
        set(vigla_curl_set_list(handle, CURLOPT_MAIL_RCPT, recipients))
        set(vigla_curl_set_long(handle, CURLOPT_UPLOAD, 1))
        set(vigla_curl_set_callback(handle, CURLOPT_READFUNCTION) { buffer, size, count, context in
            guard let buffer, let context else { return 0 }
            return Unmanaged<Source>.fromOpaque(context).takeUnretainedValue().read(into: buffer, size * count)
        })
        set(vigla_curl_set_context(handle, CURLOPT_READDATA, Unmanaged.passUnretained(source).toOpaque()))
        if status == CURLE_OK { status = withExtendedLifetime(source) { curl_easy_perform(handle) } }
        guard status != CURLE_OK else { return nil }

        var answer = 0
        _ = vigla_curl_get_long(handle, CURLINFO_RESPONSE_CODE, &answer)
        let what = String(cString: curl_easy_strerror(status))
        let text = answer == 0 ? "mail server: \(what)" : "mail server: \(what) (it answered \(answer))"
        // 5xx is final, but only where it is about the recipient or the letter: a wrong password is for the operator to mend.
        let isFinal = 500..<600 ~= answer && (status == CURLE_SEND_ERROR || status == CURLE_WEIRD_SERVER_REPLY)
        return isFinal ? .never(text) : .later(text)
    }

    /// Once for the process; libcurl counts further calls of others.
    private static let globalInit = curl_global_init(Int(CURL_GLOBAL_DEFAULT))

    /// 128 random bits in hexadecimal.
    private static func randomID() -> String {
        var generator = SystemRandomNumberGenerator()
        return [generator.next(), generator.next()].map { (number: UInt64) in String(number, radix: 16) }.joined(separator: "g")
    }

    /// What libcurl reads the letter from.
    private final class Source {
        private let bytes: [UInt8]
        private var offset = 0

        init(_ bytes: [UInt8]) { self.bytes = bytes }

        func read(into buffer: UnsafeMutablePointer<CChar>, _ most: Int) -> Int {
            let count = min(most, bytes.count - offset)
            bytes.withUnsafeBytes { source in
                if count > 0, let base = source.baseAddress { UnsafeMutableRawPointer(buffer).copyMemory(from: base + offset, byteCount: count) }
            }
            offset += count
            return count
        }
    }
}
