import CCurl
import Curl
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
        let sink = Sink(limit: settings.bytes)
        let transfer = CurlTransfer(url, protocols: protocols)
        transfer.set(CURLOPT_REDIR_PROTOCOLS_STR, "https")
        transfer.set(CURLOPT_FOLLOWLOCATION, settings.redirects > 0 ? 1 : 0)
        transfer.set(CURLOPT_MAXREDIRS, settings.redirects)
        transfer.set(CURLOPT_TIMEOUT, settings.timeoutSeconds)
        transfer.set(CURLOPT_CONNECTTIMEOUT, settings.timeoutSeconds)
        transfer.receive = sink.receive
        transfer.receiveField = sink.receive(field:)
        do throws(CurlFault) {
            try transfer.perform()
            let answer = transfer.figure(CURLINFO_RESPONSE_CODE)
            guard answer == 200 else { return .failure(.status(answer)) }
            return .success(FetchedDocument(body: sink.body, maxAge: sink.maxAge))
        } catch {
            return .failure(sink.isFull ? .tooLong : .network(error.text))
        }
    }

    /// The buffer that libcurl writes the response to.
    private final class Sink {
        private let limit: Int
        private(set) var body: [UInt8] = []
        private(set) var maxAge: Int?
        private(set) var isFull = false

        init(limit: Int) { self.limit = limit }

        /// - Returns: false when there are too many, which ends the transfer.
        func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
            isFull = body.count + bytes.count > limit
            if !isFull { body.append(contentsOf: bytes) }
            return !isFull
        }

        func receive(field line: String) {
            // The head of another response, after a redirect: the fields of the previous one do not count.
            if line.hasPrefix("HTTP/") {
                maxAge = nil
                body = []
            } else if let age = CacheControl.maxAge(field: line) {
                maxAge = age
            }
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
