public import CCurl
import Glibc

/// One transfer with the system's libcurl: `perform` blocks the calling thread, `CurlMulti` does not. Certificates are checked, and
/// TLS is 1.2 or higher.
public final class CurlTransfer {
    let handle = globalInit == CURLE_OK ? curl_easy_init() : nil
    /// The first fault of the settings.
    private var status: CURLcode
    private var lists: [UnsafeMutablePointer<curl_slist>] = []
    private var sent: [UInt8] = []
    private var sentBytes = 0
    /// libcurl's buffer for the particulars of a fault.
    private let detail = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))
    /// Receives the body in parts; false ends the transfer.
    public var receive: (UnsafeRawBufferPointer) -> Bool = { _ in true }
    /// Receives each line of a response's head.
    public var receiveField: (String) -> Void = { _ in }
    /// Most bytes of heads; more end the transfer.
    public var maxHeadBytes = Int.max
    private var headBytes = 0
    /// Decides whether a socket may be connected to an address; nil: to any. It sees the very address that libcurl connects to, after any
    /// resolution.
    public var allowsAddress: ((UnsafePointer<sockaddr>) -> Bool)?
    /// Decides whether a request may be sent over a connection to an address, as text; nil: over any. It is called before each request,
    /// also over a kept connection, for which no socket is opened.
    public var allowsConnection: ((String) -> Bool)?
    /// Whether `allowsAddress` or `allowsConnection` has refused an address.
    public private(set) var hasRefusedAddress = false

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
        detail.deallocate()
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

    /// The body of a POST. Unlike with `send`, libcurl can send it again over another connection, when a kept one turns out to be closed.
    public func post(_ bytes: [UInt8]) { check(bytes.withUnsafeBytes { vigla_curl_set_post(handle, $0.baseAddress, $0.count) }) }

    /// Carries out the transfer.
    public func perform() throws(CurlFault) {
        try prepare()
        let code = withExtendedLifetime(self) { curl_easy_perform(handle) }
        if let fault = fault(of: code) { throw fault }
    }

    /// Sets the callbacks.
    /// - Throws: the first fault of the settings.
    func prepare() throws(CurlFault) {
        let context = Unmanaged.passUnretained(self).toOpaque()
        detail.pointee = 0
        check(vigla_curl_set_context(handle, CURLOPT_ERRORBUFFER, detail))
        check(vigla_curl_set_context(handle, CURLOPT_READDATA, context))
        check(vigla_curl_set_context(handle, CURLOPT_WRITEDATA, context))
        check(vigla_curl_set_context(handle, CURLOPT_HEADERDATA, context))
        check(vigla_curl_set_callback(handle, CURLOPT_READFUNCTION) { buffer, size, count, context in
            guard let buffer, let context else { return 0 }
            return CurlTransfer.of(context).read(into: buffer, size * count)
        })
        // Fewer bytes than all end the transfer.
        check(vigla_curl_set_callback(handle, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
            guard let bytes, let context else { return 0 }
            let part = UnsafeRawBufferPointer(start: bytes, count: size * count)
            return CurlTransfer.of(context).receive(part) ? part.count : 0
        })
        check(vigla_curl_set_callback(handle, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
            guard let bytes, let context else { return 0 }
            let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
            return CurlTransfer.of(context).receive(head: line) ? line.count : 0
        })
        if allowsAddress != nil {
            check(vigla_curl_set_open_socket(handle, { context, _, address in
                guard let context, let address else { return -1 }
                return CurlTransfer.of(context).openSocket(address)
            }, context))
        }
        if allowsConnection != nil {
            check(vigla_curl_set_before_request(handle, { context, address, _, _, _ in
                guard let context, let address else { return CURL_PREREQFUNC_ABORT }
                return CurlTransfer.of(context).allows(connection: String(cString: address)) ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
            }, context))
        }
        if let fault = fault(of: status) { throw fault }
    }

    /// The fault of a transfer that has ended; nil for none.
    func fault(of code: CURLcode) -> CurlFault? {
        code == CURLE_OK ? nil : CurlFault(code: code, detail: String(cString: detail))
    }

    private static func of(_ context: UnsafeMutableRawPointer) -> CurlTransfer {
        Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue()
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

    private func receive(head line: UnsafeRawBufferPointer) -> Bool {
        headBytes += line.count
        guard headBytes <= maxHeadBytes else { return false }
        receiveField(String(decoding: line, as: UTF8.self))
        return true
    }

    /// A socket for an address; -1 if it is not allowed: then libcurl tries the next.
    private func openSocket(_ address: UnsafeMutablePointer<curl_sockaddr>) -> curl_socket_t {
        // The member is only the beginning of the address.
        let start = UnsafeRawPointer(address) + (MemoryLayout<curl_sockaddr>.offset(of: \.addr) ?? 0)
        guard allowsAddress?(start.assumingMemoryBound(to: sockaddr.self)) ?? true else {
            hasRefusedAddress = true
            return -1
        }
        return socket(address.pointee.family, address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue), address.pointee.protocol)
    }

    private func allows(connection address: String) -> Bool {
        let isAllowed = allowsConnection?(address) ?? true
        if !isAllowed { hasRefusedAddress = true }
        return isAllowed
    }

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

    /// The fault of a transfer that its caller has ended, because it took too long.
    public static let timeout = CurlFault(code: CURLE_OPERATION_TIMEDOUT, detail: "")

    /// libcurl's text for the code, without particulars.
    public var text: String { code == CURLE_FAILED_INIT ? "libcurl cannot be set up" : String(cString: curl_easy_strerror(code)) }
}
