/// Where a mailed link goes on to: an absolute `http` or `https` URL whose host is allowed, or our page would be an open redirect
/// (accounts contract §6.6).
struct ContinueURL: Sendable, Equatable {
    let text: String
    /// In lower case, without port.
    let host: String

    /// Nil unless it is absolute and holds nothing that browsers and we could read differently: no user name, no backslash, no
    /// space or control character, nothing but ASCII.
    init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard bytes.count <= 2048, bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7F && !#"\"<>^`{|}"#.utf8.contains($0) }) else { return nil }
        let lower = text.lowercased()
        guard let scheme = ["https://", "http://"].first(where: lower.hasPrefix) else { return nil }
        let authority = lower.dropFirst(scheme.count).prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        guard let host = Self.host(authority) else { return nil }
        self.text = text
        self.host = host
    }

    private static func host(_ authority: Substring) -> String? {
        let (host, rest): (Substring, Substring)
        if authority.first == "[" {
            guard let end = authority.firstIndex(of: "]") else { return nil }
            (host, rest) = (authority[...end], authority[authority.index(after: end)...])
            guard host.dropFirst().dropLast().utf8.allSatisfy({ $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: ".") || isHex($0) }) else {
                return nil
            }
        } else {
            host = authority.prefix { $0 != ":" }
            rest = authority[host.endIndex...]
            guard !host.isEmpty, host.utf8.allSatisfy(isNameByte) else { return nil }
        }
        guard rest.isEmpty || (rest.first == ":" && rest.dropFirst().utf8.allSatisfy { 0x30...0x39 ~= $0 }) else { return nil }
        return String(host)
    }

    private static func isHex(_ byte: UInt8) -> Bool { 0x30...0x39 ~= byte || 0x61...0x66 ~= byte }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        0x30...0x39 ~= byte || 0x61...0x7A ~= byte || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".") || byte == UInt8(ascii: "_")
    }
}

extension AccountService {
    /// - Throws: INVALID_CONTINUE_URI for what is no absolute URL, UNAUTHORIZED_DOMAIN for a host that is not allowed.
    func continueURL(_ text: String?) throws(AccountError) -> ContinueURL? {
        guard let text else { return nil }
        guard let url = ContinueURL(text) else { throw AccountError("INVALID_CONTINUE_URI", "An absolute http or https URL is expected.") }
        guard settings.linkHosts.contains(where: { $0.lowercased() == url.host }) else {
            throw AccountError("UNAUTHORIZED_DOMAIN", "This host is not one of those that links may go on to.")
        }
        return url
    }
}
