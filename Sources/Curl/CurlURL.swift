import CCurl

/// A URL as libcurl itself understands it: with another parser, a check could see one host and the transfer connect to another.
public struct CurlURL: Sendable, Equatable {
    /// `https` or `http`, in lower case.
    public let scheme: String
    /// In lower case, without brackets; numeric forms such as `0x7f.1` are written out.
    public let host: String
    public let port: UInt16
    /// The URL as libcurl would send it, without its fragment.
    public let text: String

    /// Nil for anything but an absolute http or https URL of ASCII characters without spaces, user name, password or IPv6 zone,
    /// with a host of letters, digits, `-`, `.` and `_` that does not end in a dot, or an IP address.
    public init?(_ source: String) {
        guard source.utf8.allSatisfy({ 0x21...0x7E ~= $0 }), let handle = curl_url() else { return nil }
        defer { curl_url_cleanup(handle) }
        guard curl_url_set(handle, CURLUPART_URL, source, 0) == CURLUE_OK,
              let scheme = Self.part(handle, CURLUPART_SCHEME)?.lowercased(), scheme == "https" || scheme == "http",
              Self.part(handle, CURLUPART_USER) == nil, Self.part(handle, CURLUPART_PASSWORD) == nil,
              Self.part(handle, CURLUPART_ZONEID) == nil,
              var host = Self.part(handle, CURLUPART_HOST)?.lowercased(),
              let port = Self.part(handle, CURLUPART_PORT, UInt32(CURLU_DEFAULT_PORT)).flatMap({ UInt16($0) }), port > 0,
              curl_url_set(handle, CURLUPART_FRAGMENT, nil, 0) == CURLUE_OK, let text = Self.part(handle, CURLUPART_URL)
        else { return nil }
        // libcurl has checked the address in brackets.
        let isIPv6 = host.hasPrefix("[") && host.hasSuffix("]")
        if isIPv6 { host = String(host.dropFirst().dropLast()) }
        // libcurl decodes percent signs in a host, and accepts most other characters.
        let isHost = host.utf8.allSatisfy {
            0x30...0x39 ~= $0 || 0x61...0x7A ~= $0 || (isIPv6 ? ":." : "-._").utf8.contains($0)
        }
        guard isHost, !host.isEmpty, !host.hasSuffix(".") else { return nil }
        self.scheme = scheme
        self.host = host
        self.port = port
        self.text = text
    }

    public var isSecure: Bool { scheme == "https" }

    /// The host as in a URL: an IPv6 address in brackets.
    public var bracketedHost: String { host.contains(":") ? "[\(host)]" : host }

    /// `https://push.example`, with the port unless it is the scheme's (RFC 6454 §6.2).
    public var origin: String {
        port == (isSecure ? 443 : 80) ? "\(scheme)://\(bracketedHost)" : "\(scheme)://\(bracketedHost):\(port)"
    }

    private static func part(_ handle: OpaquePointer, _ part: CURLUPart, _ flags: UInt32 = 0) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(handle, part, &text, flags) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }
}
