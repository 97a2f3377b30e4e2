public import CCurl

/// One transfer with the system's libcurl. It blocks the calling thread. Certificates are checked, and TLS is 1.2 or higher.
public final class CurlTransfer {
    private let handle = globalInit == CURLE_OK ? curl_easy_init() : nil
    /// The first fault of the settings.
    private var status: CURLcode
    private var lists: [UnsafeMutablePointer<curl_slist>] = []
    private var sent: [UInt8] = []
    private var sentBytes = 0
    /// Receives the body in parts; false ends the transfer.
    public var receive: (UnsafeRawBufferPointer) -> Bool = { _ in true }
    /// Receives each line of a response's head.
    public var receiveField: (String) -> Void = { _ in }

    /// - Parameter protocols: those that the URL may have, separated by commas.
    public init(_ url: String, protocols: String) {
        status = handle == nil ? CURLE_FAILED_INIT : CURLE_OK
        set(CURLOPT_URL, url)
        set(CURLOPT_PROTOCOLS_STR, protocols)
        set(CURLOPT_NOSIGNAL, 1)
        set(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
    }

    deinit {
        curl_easy_cleanup(handle)
        for list in lists { curl_slist_free_all(list) }
    }

    public func set(_ option: CURLoption, _ value: String) { check(vigla_curl_set_string(handle, option, value)) }

    public func set(_ option: CURLoption, _ value: Int) { check(vigla_curl_set_long(handle, option, value)) }

    public func set(_ option: CURLoption, _ bytes: [UInt8]) { check(vigla_curl_set_blob(handle, option, bytes, bytes.count)) }

    public func set(_ option: CURLoption, _ values: [String]) {
        var list: UnsafeMutablePointer<curl_slist>?
        for value in values { list = curl_slist_append(list, value) ?? list }
        if let list { lists.append(list) }
        check(vigla_curl_set_list(handle, option, list))
    }

    /// The message or body to send.
    public func send(_ bytes: [UInt8]) {
        sent = bytes
        set(CURLOPT_UPLOAD, 1)
    }

    /// Carries out the transfer.
    public func perform() throws(CurlFault) {
        let context = Unmanaged.passUnretained(self).toOpaque()
        check(vigla_curl_set_context(handle, CURLOPT_READDATA, context))
        check(vigla_curl_set_context(handle, CURLOPT_WRITEDATA, context))
        check(vigla_curl_set_context(handle, CURLOPT_HEADERDATA, context))
        check(vigla_curl_set_callback(handle, CURLOPT_READFUNCTION) { buffer, size, count, context in
            guard let buffer, let context else { return 0 }
            return Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue().read(into: buffer, size * count)
        })
        // Fewer bytes than all end the transfer.
        check(vigla_curl_set_callback(handle, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
            guard let bytes, let context else { return 0 }
            let part = UnsafeRawBufferPointer(start: bytes, count: size * count)
            return Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue().receive(part) ? part.count : 0
        })
        check(vigla_curl_set_callback(handle, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
            guard let bytes, let context else { return 0 }
            let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
            Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue().receiveField(String(decoding: line, as: UTF8.self))
            return line.count
        })
        var detail = [CChar](repeating: 0, count: Int(CURL_ERROR_SIZE))
        detail.withUnsafeMutableBufferPointer { detail in
            check(vigla_curl_set_context(handle, CURLOPT_ERRORBUFFER, detail.baseAddress))
            if status == CURLE_OK { status = withExtendedLifetime(self) { curl_easy_perform(handle) } }
            check(vigla_curl_set_context(handle, CURLOPT_ERRORBUFFER, nil))
        }
        let text = String(decoding: detail.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        guard status == CURLE_OK else { throw CurlFault(code: status, detail: text) }
    }

    /// A figure of the transfer, such as the response's status code; 0 if unknown.
    public func figure(_ name: CURLINFO) -> Int {
        var figure = 0
        _ = vigla_curl_get_long(handle, name, &figure)
        return figure
    }

    /// A text about the transfer or its settings; nil without one.
    public func text(_ name: CURLINFO) -> String? {
        var text: UnsafePointer<CChar>?
        _ = vigla_curl_get_string(handle, name, &text)
        return text.map { String(cString: $0) }
    }

    private func check(_ code: CURLcode) { if status == CURLE_OK { status = code } }

    private func read(into buffer: UnsafeMutablePointer<CChar>, _ most: Int) -> Int {
        let count = min(most, sent.count - sentBytes)
        sent.withUnsafeBytes { source in
            guard count > 0, let base = source.baseAddress else { return }
            UnsafeMutableRawPointer(buffer).copyMemory(from: base + sentBytes, byteCount: count)
        }
        sentBytes += count
        return count
    }

    /// Once per process; libcurl counts further calls by other libraries.
    private static let globalInit = curl_global_init(Int(CURL_GLOBAL_DEFAULT))
}

/// Why a transfer failed.
public struct CurlFault: Error {
    public let code: CURLcode
    /// The particulars, which may quote the peer; may be empty.
    public let detail: String

    /// libcurl's text for the code, without particulars.
    public var text: String { code == CURLE_FAILED_INIT ? "libcurl cannot be set up" : String(cString: curl_easy_strerror(code)) }
}
