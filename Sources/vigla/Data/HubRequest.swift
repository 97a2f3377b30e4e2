import CCurl
import Curl
import DispatchNet
import Glibc
import ViglaClient

/// Single HTTP requests to a hub.
enum HubRequest {
    /// Received bytes from which on progress is shown.
    private static let shownBytes = 1 << 20
    private static let connectSeconds = 30

    /// Sends a request and waits for the status and the body; ends the program when no response arrives.
    static func send(
        _ method: String, _ target: String, to address: HubAddress, tls: TLSOptions, credential: String? = nil, body: [UInt8] = [],
        timeoutSeconds: Int = 600
    ) -> (status: Int, body: [UInt8]) {
        signal(SIGPIPE, SIG_IGN)
        var fields = ["Host: \(address)", "Connection: close", "Expect:"]
        if !body.isEmpty { fields.append("Content-Type: application/json") }
        if let credential {
            guard credential.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else { fail("a secret is one word") }
            fields.append("Authorization: Bearer \(credential)")
        }
        let scheme = address.isSecure ? "https" : "http"
        // The host of the URL is the one that the certificate must be for.
        let authority = address.isSecure ? tls.name.map { "\($0):\(address.port)" } : nil
        let transfer = CurlTransfer("\(scheme)://\(authority ?? address.description)", protocols: scheme)
        if authority != nil { transfer.set(CURLOPT_CONNECT_TO, ["::\(address)"]) }
        if address.isSecure { trust(tls.checkedAuthorities, transfer) }
        transfer.set(CURLOPT_PROXY, "")
        transfer.set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        transfer.set(CURLOPT_REQUEST_TARGET, target)
        if method != "GET" {
            transfer.send(body)
            transfer.set(CURLOPT_INFILESIZE, body.count)
            transfer.set(CURLOPT_CUSTOMREQUEST, method)
        }
        transfer.set(CURLOPT_HTTPHEADER, fields)
        transfer.set(CURLOPT_CONNECTTIMEOUT, connectSeconds)
        transfer.set(CURLOPT_TIMEOUT, timeoutSeconds)
        // The timeout is also kept while a name is being looked up: nothing waits for that thread.
        transfer.set(CURLOPT_QUICK_EXIT, 1)

        var (answer, progress) = ([UInt8](), ProgressLine("received"))
        transfer.receive = { part in
            answer.append(contentsOf: part)
            if answer.count > shownBytes { progress.show(answer.count >> 20, unit: "MiB") }
            return true
        }
        func endProgress() { if answer.count > shownBytes { progress.end() } }
        do throws(CurlFault) { try transfer.perform() } catch {
            endProgress()
            if error.code == CURLE_OPERATION_TIMEDOUT, timeoutSeconds <= connectSeconds || transfer.figure(CURLINFO_REQUEST_SIZE) > 0 {
                fail("no answer from \(address) within \(timeoutSeconds) seconds")
            }
            let errno = Int32(truncatingIfNeeded: transfer.figure(CURLINFO_OS_ERRNO))
            if [CURLE_URL_MALFORMAT, CURLE_FAILED_INIT, CURLE_OUT_OF_MEMORY, CURLE_BAD_FUNCTION_ARGUMENT, CURLE_UNKNOWN_OPTION].contains(error.code) {
                fail("the request to \(address) cannot be sent: \(error.text)")
            }
            fail(ConnectionAdvice.text(clientError(error, errno: errno, address), from: address))
        }
        endProgress()
        return (transfer.figure(CURLINFO_RESPONSE_CODE), answer)
    }

    /// Trusts libcurl's default certificates, or those that SSL_CERT_FILE and SSL_CERT_DIR name, and those in a file.
    private static func trust(_ file: String?, _ transfer: CurlTransfer) {
        if let folder = Environment["SSL_CERT_DIR"] { transfer.set(CURLOPT_CAPATH, folder) }
        let system = Environment["SSL_CERT_FILE"] ?? transfer.text(CURLINFO_CAINFO)
        guard let file else { return system.map { transfer.set(CURLOPT_CAINFO, $0) } ?? () }
        let certificates = [file, system].compactMap { $0 }.compactMap { try? WholeFile.read($0).get() }
        transfer.set(CURLOPT_CAINFO_BLOB, Array(certificates.joined(separator: [UInt8(ascii: "\n")])))
    }

    /// The same failure as that of a client's connection.
    private static func clientError(_ fault: CurlFault, errno: Int32, _ address: HubAddress) -> ClientError {
        switch fault.code {
        case CURLE_COULDNT_RESOLVE_HOST: .unreachable(ClientError.text(.unresolved(host: address.host, code: 0)))
        case CURLE_COULDNT_CONNECT: .unreachable(ClientError.text(.connectFailed(address: "\(address)", errno: errno)))
        case CURLE_OPERATION_TIMEDOUT: .unreachable(ClientError.text(.connectTimedOut(address: "\(address)")))
        case CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE:
            .unreachable(ClientError.text(.handshakeFailed(peer: "\(address)", openSSL: handshakeReason(fault))))
        case CURLE_UNSUPPORTED_PROTOCOL, CURLE_WEIRD_SERVER_REPLY: .badAnswer("\(address) does not answer in HTTP/1.1")
        default: .unreachable("\(address) ended the connection (\(fault.text))")
        }
    }

    /// OpenSSL's own text, from libcurl's.
    private static func handshakeReason(_ fault: CurlFault) -> String {
        let text = fault.detail.isEmpty ? fault.text : fault.detail
        if text.contains("match") { return "hostname mismatch" }
        if ["SSL_ERROR_SYSCALL", "reset by peer", "unexpected eof"].contains(where: text.contains) {
            return "it ended the connection during the handshake"
        }
        // `error:0A00010B:SSL routines::wrong version number`, `SSL certificate problem: certificate has expired`
        let reason = text.contains("error:") ? text.split(separator: ":").last : text.firstRange(of: ": ").map { text[$0.upperBound...] }
        return String(reason ?? text[...])
    }

    /// Prints a sentence on why a request failed, with what to type, and ends the program.
    static func refused(_ status: Int, _ body: [UInt8], by address: HubAddress, _ credential: AdminCredential, advice: String) -> Never {
        if status == 401 || status == 403 { fail("\(address) refuses this (\(status)). \(credential.refused)") }
        let text = UserText.plain(ClientError.reason(String(decoding: body.prefix(2_000), as: UTF8.self)))
        fail("\(address) answers \(status)\(text.isEmpty ? "" : ": \(text)")\n"
            + (ConnectionAdvice.isUnknownNamespace(status, text) ? ConnectionAdvice.otherNamespace : advice))
    }
}

extension HubAddress {
    /// Appended to a query that already has a parameter.
    var namespaceItem: String { namespace.map { "&ns=\($0)" } ?? "" }

    /// A target, with the selected namespace appended.
    func selecting(_ target: String) -> String {
        guard let namespace else { return target }
        return target + (target.contains("?") ? "&" : "?") + "ns=\(UserText.escaped(namespace))"
    }
}
