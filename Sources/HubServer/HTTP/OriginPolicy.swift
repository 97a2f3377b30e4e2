import HTTPTypes
import WireProtocols

/// Decides which web pages may open a WebSocket or a long poll. Browsers let every page connect to any address and only report the
/// page's origin (RFC 6455 §10.2); other programs send no origin and are admitted.
///
/// In production a client needs a token that a foreign page does not have, so all pages are admitted unless `--allow-origin` lists
/// some. In development tokens are unsigned, so only pages of this machine are admitted:
///
/// | page | `--dev` |
/// |---|---|
/// | `http(s)://localhost`, `*.localhost`, `127.0.0.0/8`, `[::1]`, any port | admitted |
/// | the hub's own page under a numeric address | admitted |
/// | `file://` | admitted |
/// | without an origin (`null`): any page can create such a frame | 403 |
/// | anything else, also under a name that resolves to this machine | 403 |
///
/// In development the `Host` must not be a name either (DNS rebinding). A page can let its own name resolve to this machine; its requests
/// are then same-origin, and browsers send no `Origin` with them. A name without a dot can be such a name too, because the resolver appends
/// the network's domain. Such names are admitted if the hub listens for other machines anyway, as in a network of containers.
struct OriginPolicy: Sendable {
    let allowed: [String]?
    let isDev: Bool
    /// Whether the hub listens for other machines, too.
    var isOpenToNetwork = false

    /// - Parameter usesReferer: for requests that a browser makes without an `Origin` (script tags).
    func permits(_ request: HTTPInboundRequest, usesReferer: Bool = false) -> Bool {
        if isDev, allowed == nil, let dialled = request.host.map({ Self.host($0[...]) }) {
            let mayBeDialled = Self.isNumeric(dialled) || Self.isThisMachine(dialled) || isOpenToNetwork && !dialled.contains(".")
            guard mayBeDialled else { return false }
        }
        guard let origin = request.fields[.origin] ?? (usesReferer ? Self.referrer(request) : nil) else {
            // Without `Origin` and `Referer` the request may come from any page, so the `Host` must be this machine's.
            return !(usesReferer && isDev && allowed == nil) || request.host.map(Self.isThisMachine) ?? true
        }
        if let allowed { return allowed.contains { $0 == "*" || $0.lowercased() == origin.lowercased() } }
        guard isDev else { return true }
        if origin.hasPrefix("file:") { return true }
        guard let authority = Self.authority(origin) else { return false }
        let host = Self.host(authority)
        if Self.isThisMachine(host) { return true }
        // DNS can resolve any name to this machine; a numeric address cannot be redirected.
        return Self.isNumeric(host) && authority.lowercased() == request.host?.lowercased()
    }

    /// Whether a page is admitted explicitly: the list has its origin, or the hub runs in development. Only such pages may reach a hub in
    /// the visitor's private network. The others are admitted because requests need a token.
    func names(_ request: HTTPInboundRequest) -> Bool {
        guard let allowed else { return isDev }
        return request.fields[.origin].map { origin in allowed.contains { $0.lowercased() == origin.lowercased() } } ?? false
    }

    /// The origin of the page that contains a script tag. A page can suppress `Referer` (`no-referrer`), but not the browser's
    /// `Sec-Fetch-Site` (Fetch Metadata).
    private static func referrer(_ request: HTTPInboundRequest) -> String? {
        if let referer = request.fields[.referer] { return origin(referer) }
        let site = request.fields.first { $0.name.canonicalName == "sec-fetch-site" }?.value
        return site == "cross-site" || site == "same-site" ? "null" : nil
    }

    /// `scheme://authority` of a URL.
    private static func origin(_ url: String) -> String {
        guard let marks = url.firstRange(of: "://") else { return "null" }
        return String(url[..<(url[marks.upperBound...].firstIndex { "/?#".contains($0) } ?? url.endIndex)])
    }

    private static func authority(_ origin: String) -> Substring? {
        origin.firstRange(of: "://").map { origin[$0.upperBound...] }
    }

    /// Without the port; brackets of an IPv6 address stay.
    private static func host(_ authority: Substring) -> Substring {
        if authority.first == "[" { return authority.prefix { $0 != "]" } + "]" }
        return authority.prefix { $0 != ":" }
    }

    /// Whether `host[:port]` can only name this machine.
    static func isThisMachine(host: String) -> Bool { isThisMachine(Self.host(host[...])) }

    private static func isThisMachine(_ host: Substring) -> Bool {
        let name = host.lowercased()
        return name == "localhost" || name.hasSuffix(".localhost") || name == "[::1]" || (name.hasPrefix("127.") && isNumeric(host))
    }

    private static func isNumeric(_ host: Substring) -> Bool {
        host.first == "[" || (!host.isEmpty && host.utf8.allSatisfy { $0 == UInt8(ascii: ".") || (0x30...0x39).contains($0) })
    }
}
