import CCurl
import Curl

/// One request with its answer: a transfer, and what of the answer counts.
final class Exchange {
    let place: SendQueue.Place
    let transfer: CurlTransfer
    /// ms of the steady clock.
    let startedAt: Int64
    private let request: OutboundRequest
    private let bodyLimit: Int
    /// Times in ms for connecting, TLS included, and for the whole exchange.
    private let connectMs: Int, exchangeMs: Int
    private var excerpt: [UInt8] = []
    private var bodyBytes = 0
    private var retryAfter: String?
    private var isConnected = false
    /// The head of a final answer has arrived.
    private var isAnswered = false

    /// - Parameters:
    ///   - addresses: those of the host, which may be connected to.
    ///   - permits: checks each address again, when a socket is created for it, and before the request is sent.
    init(
        _ request: OutboundRequest, _ place: SendQueue.Place, addresses: [IPAddress], permits: @escaping (IPAddress) -> Bool,
        certificates: String?, _ limits: SenderLimits, now: Int64
    ) {
        self.request = request
        self.place = place
        startedAt = now
        bodyLimit = limits.bodyBytes
        (connectMs, exchangeMs) = (limits.connectMs, request.timeoutMs ?? limits.exchangeMs)
        let url = request.url
        transfer = CurlTransfer(url.text, protocols: url.scheme)
        // libcurl must not ask the resolver again: a name could have another address by then, and its own lookups block on a slow server.
        if IPAddress(url.host) == nil {
            let list = addresses.map { $0.v4 == nil ? "[\($0)]" : "\($0)" }.joined(separator: ",")
            transfer.set(CURLOPT_RESOLVE, ["+\(url.host):\(url.port):\(list)"])
        }
        // The socket's own address is what counts: no resolver, cache or form of an address leads past this check.
        transfer.allowsAddress = { IPAddress($0).map(permits) ?? false }
        // A connection that was opened under another guard is kept for the host, too.
        transfer.allowsConnection = { [unowned self] address in
            isConnected = true
            return IPAddress(address).map(permits) ?? false
        }
        transfer.set(CURLOPT_PROXY, "")
        transfer.set(CURLOPT_FOLLOWLOCATION, 0)
        transfer.set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_2TLS))
        transfer.set(CURLOPT_PIPEWAIT, url.isSecure ? 1 : 0)
        // The loop ends what takes too long, by its own clock. libcurl has a limit to divide among several addresses, as it tries the next
        // one after half of it; for a single one it must not end connecting after its five minutes.
        transfer.set(CURLOPT_CONNECTTIMEOUT_MS, addresses.count > 1 ? limits.connectMs : Int(Int32.max))
        transfer.set(CURLOPT_MAXAGE_CONN, limits.reuseSeconds)
        if let certificates { transfer.set(CURLOPT_CAINFO, certificates) }
        // No `Expect: 100-continue`, which would cost a round trip.
        let fields = request.fields.map { $0.value.isEmpty ? "\($0.name);" : "\($0.name): \($0.value)" }
        transfer.set(CURLOPT_HTTPHEADER, fields + ["Expect:"])
        transfer.set(CURLOPT_USERAGENT, "vigla")
        transfer.post(request.body)
        transfer.maxHeadBytes = limits.headBytes
        transfer.receive = { [unowned self] in receive($0) }
        transfer.receiveField = { [unowned self] in receive(field: $0) }
    }

    private func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        excerpt.append(contentsOf: bytes.prefix(max(0, 200 - excerpt.count)))
        bodyBytes += bytes.count
        return bodyBytes <= bodyLimit
    }

    private func receive(field line: String) {
        if line.hasPrefix("HTTP/") {
            // The head of another answer, after an informational one.
            (retryAfter, excerpt) = (nil, [])
        } else if line == "\r\n" || line == "\n" {
            isAnswered = transfer.figure(CURLINFO_RESPONSE_CODE) >= 200
        } else if let colon = line.firstIndex(of: ":"), line[..<colon].lowercased() == "retry-after" {
            retryAfter = String(line[line.index(after: colon)...].drop { $0 == " " }.prefix { $0 >= " " })
        }
    }

    /// What became of it. The status counts as soon as the head has arrived, even if the body never ends.
    /// - Parameter now: ms since the epoch.
    func outcome(_ fault: CurlFault?, now: Int64) -> DeliveryOutcome {
        if isAnswered {
            let status = transfer.figure(CURLINFO_RESPONSE_CODE)
            return DeliveryOutcome(request.service, status: status, retryAfter: retryAfter, excerpt: excerpt, now: now)
        }
        if transfer.hasRefusedAddress { return .refused(reason: AddressGuard.refusal) }
        return fault.map { DeliveryOutcome(fault: $0) } ?? .later(afterMs: nil, reason: "no answer")
    }

    /// Whether it has taken longer than it may.
    /// - Parameter now: ms of the steady clock.
    func isOverdue(now: Int64) -> Bool { now - startedAt >= Int64(isConnected ? exchangeMs : min(connectMs, exchangeMs)) }

    /// Whether the host has answered, and without a fault of the transfer.
    func isPrompt(_ fault: CurlFault?, within ms: Int64, now: Int64) -> Bool { isAnswered && fault == nil && now - startedAt <= ms }
}

extension AddressGuard {
    /// The reason of a dead letter.
    static let refusal = "the endpoint's address is private or reserved, and the configuration does not allow it"
}
