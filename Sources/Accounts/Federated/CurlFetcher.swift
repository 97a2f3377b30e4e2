import CCurl
import Dispatch
import Glibc
import Synchronization
public import Tokens

/// Fetches with the system's libcurl. Its calls block, so each request runs on its own thread, and a slow issuer delays no other. Certificates
/// are checked against the system's.
public final class CurlFetcher: KeyFetching {
    private let settings: KeyFetchSettings
    /// Whether http to this machine's own addresses is allowed.
    private let allowsLoopback: Bool
    /// Idle queues; as many exist as were needed at once.
    private let idle = Mutex<[DispatchQueue]>([])
    private let waiting = Atomic<Int>(0)

    /// - Parameter isDev: a development hub also fetches from `http://localhost`, `http://127.0.0.1` and `http://[::1]`.
    public init(_ settings: KeyFetchSettings, isDev: Bool) {
        self.settings = settings
        allowsLoopback = isDev
    }

    public func fetch(_ url: String) async throws(KeyFetchFault) -> FetchedDocument {
        guard let protocols = protocols(for: url) else { throw .scheme }
        guard waiting.add(1, ordering: .relaxed).newValue <= settings.waiting else {
            waiting.subtract(1, ordering: .relaxed)
            throw .tooMany
        }
        let settings = settings
        let queue = idle.withLock { $0.popLast() } ?? DispatchQueue(label: "vigla.keys")
        let result: Result<FetchedDocument, KeyFetchFault> = await withCheckedContinuation { continuation in
            queue.async { continuation.resume(returning: Self.transfer(url, protocols, settings)) }
        }
        idle.withLock { $0.append(queue) }
        waiting.subtract(1, ordering: .relaxed)
        return try result.get()
    }

    /// The protocols that libcurl may use for a URL; nil for a scheme that is not supported.
    private func protocols(for url: String) -> String? {
        if url.hasPrefix("https://") { return "https" }
        guard allowsLoopback, url.hasPrefix("http://") else { return nil }
        let authority = url.dropFirst("http://".count).prefix { !"/?#".contains($0) }
        // A user name could hide the host.
        guard !authority.contains("@"), !authority.contains("\\") else { return nil }
        let isOurs = ["localhost", "127.0.0.1", "[::1]"].contains { host in
            authority == host || (authority.hasPrefix(host + ":") && authority.dropFirst(host.count + 1).allSatisfy(\.isNumber))
        }
        return isOurs ? "http" : nil
    }

    private static func transfer(
        _ url: String, _ protocols: String, _ settings: KeyFetchSettings
    ) -> Result<FetchedDocument, KeyFetchFault> {
        guard globalInit == CURLE_OK, let handle = curl_easy_init() else { return .failure(.network("libcurl cannot be set up")) }
        defer { curl_easy_cleanup(handle) }
        let sink = Sink(limit: settings.bytes)
        let context = Unmanaged.passUnretained(sink).toOpaque()

        var status = CURLE_OK
        func set(_ code: CURLcode) { if status == CURLE_OK { status = code } }
        set(vigla_curl_set_string(handle, CURLOPT_URL, url))
        set(vigla_curl_set_string(handle, CURLOPT_PROTOCOLS_STR, protocols))
        set(vigla_curl_set_string(handle, CURLOPT_REDIR_PROTOCOLS_STR, "https"))
        set(vigla_curl_set_long(handle, CURLOPT_FOLLOWLOCATION, settings.redirects > 0 ? 1 : 0))
        set(vigla_curl_set_long(handle, CURLOPT_MAXREDIRS, settings.redirects))
        set(vigla_curl_set_long(handle, CURLOPT_NOSIGNAL, 1))
        set(vigla_curl_set_long(handle, CURLOPT_TIMEOUT, settings.timeoutSeconds))
        set(vigla_curl_set_long(handle, CURLOPT_CONNECTTIMEOUT, settings.timeoutSeconds))
        set(vigla_curl_set_long(handle, CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2)))
        set(vigla_curl_set_callback(handle, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
            guard let bytes, let context else { return 0 }
            let (sink, part) = (Unmanaged<Sink>.fromOpaque(context), UnsafeRawBufferPointer(start: bytes, count: size * count))
            return sink.takeUnretainedValue().receive(part)
        })
        set(vigla_curl_set_context(handle, CURLOPT_WRITEDATA, context))
        set(vigla_curl_set_callback(handle, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
            guard let bytes, let context else { return 0 }
            let (sink, line) = (Unmanaged<Sink>.fromOpaque(context), UnsafeRawBufferPointer(start: bytes, count: size * count))
            return sink.takeUnretainedValue().receive(header: line)
        })
        set(vigla_curl_set_context(handle, CURLOPT_HEADERDATA, context))
        if status == CURLE_OK { status = withExtendedLifetime(sink) { curl_easy_perform(handle) } }
        if sink.isFull { return .failure(.tooLong) }
        guard status == CURLE_OK else { return .failure(.network(String(cString: curl_easy_strerror(status)))) }
        var answer = 0
        _ = vigla_curl_get_long(handle, CURLINFO_RESPONSE_CODE, &answer)
        guard answer == 200 else { return .failure(.status(answer)) }
        return .success(FetchedDocument(body: sink.body, maxAge: sink.maxAge))
    }

    /// Once per process; libcurl counts further calls by other libraries.
    private static let globalInit = curl_global_init(Int(CURL_GLOBAL_DEFAULT))

    /// The buffer that libcurl writes the response to.
    private final class Sink {
        private let limit: Int
        private(set) var body: [UInt8] = []
        private(set) var maxAge: Int?
        private(set) var isFull = false

        init(limit: Int) { self.limit = limit }

        /// - Returns: the number of bytes accepted; fewer than all ends the transfer.
        func receive(_ bytes: UnsafeRawBufferPointer) -> Int {
            guard body.count + bytes.count <= limit else {
                isFull = true
                return 0
            }
            body.append(contentsOf: bytes)
            return bytes.count
        }

        func receive(header bytes: UnsafeRawBufferPointer) -> Int {
            let line = String(decoding: bytes, as: UTF8.self)
            // The head of another response, after a redirect: the fields of the previous one do not count.
            if line.hasPrefix("HTTP/") {
                maxAge = nil
                body = []
            } else if let age = CacheControl.maxAge(field: line) {
                maxAge = age
            }
            return bytes.count
        }
    }
}

/// How long a response may be cached (RFC 9111 §5.2.2).
enum CacheControl {
    /// - Parameter field: a whole header line.
    /// - Returns: seconds, 0 for `no-store` and `no-cache`; nil for another field, or without a lifetime.
    static func maxAge(field: String) -> Int? {
        guard let colon = field.firstIndex(of: ":"), field[..<colon].lowercased() == "cache-control" else { return nil }
        var age: Int?
        for directive in field[field.index(after: colon)...].split(separator: ",") {
            let words = directive.split(separator: "=", maxSplits: 1).map { $0.filter { !$0.isWhitespace }.lowercased() }
            if words == ["no-store"] || words == ["no-cache"] { return 0 }
            if words.count == 2, words[0] == "max-age" { age = Int(words[1].filter { $0 != "\"" }).map { max(0, $0) } }
        }
        return age
    }
}
