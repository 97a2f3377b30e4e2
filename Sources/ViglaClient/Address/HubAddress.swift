public import JSONTree
internal import WireProtocols

/// A hub's address and the selected namespace.
public struct HubAddress: Sendable, Hashable, CustomStringConvertible {
    /// A name or a numeric address; IPv6 without brackets.
    public var host: String
    public var port: UInt16
    /// Nil selects the hub's default.
    public var namespace: String?
    /// Uses TLS: the hub must present a valid certificate.
    public var isSecure: Bool

    public init(host: String = "127.0.0.1", port: UInt16 = 9000, namespace: String? = nil, isSecure: Bool = false) {
        self.host = host
        self.port = port
        self.namespace = namespace
        self.isSecure = isSecure
    }

    /// `127.0.0.1:9000`, `[::1]:9000`.
    public var description: String { "\(hostText):\(port)" }

    private var hostText: String { host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host }

    /// The Host field of requests (RFC 9110 §7.2).
    var hostField: String { description }

    /// The endpoint of the observe protocol.
    var target: String { namespace.map { "/.observe?ns=\(PercentText.encode($0))" } ?? "/.observe" }
}

/// A place in a hub as people write it: `http://127.0.0.1:9000/users/ana?ns=demo`.
public struct HubURL: Sendable, Hashable, CustomStringConvertible {
    public var address: HubAddress
    public var path: Path
    /// Whether the URL names the priority of the place: `/users/ana/.priority`.
    public var isPriority = false
    /// The other parameters of its query, as in REST: `orderBy`, `auth`, …; decoded, in their order.
    public var parameters: [Parameter] = []

    public struct Parameter: Sendable, Hashable {
        public var name: String
        public var value: String

        public init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    public init(_ address: HubAddress, path: Path = .root) {
        self.address = address
        self.path = path
    }

    /// Accepts `http` and `ws`, or no scheme at all, and `https` and `wss`; the port defaults to 80, or 443, as in every URL. A REST address
    /// (`….json`) means the place that it names.
    /// - Parameter takesPriority: whether the path may end with `.priority`; otherwise that is refused, as it is not a place.
    /// - Throws: `HubURLError`.
    public init(_ text: String, takesPriority: Bool = false) throws(HubURLError) {
        var rest = text[...]
        var isSecure = false
        if let mark = text.firstRange(of: "://") {
            switch text[..<mark.lowerBound].lowercased() {
            case "http", "ws": break
            case "https", "wss": isSecure = true
            case let scheme: throw .scheme(scheme)
            }
            rest = text[mark.upperBound...]
        }
        let target: HTTPTarget
        do throws(HTTPFailure) { target = try HTTPTarget("http://" + PercentText.encodeUnwritten(rest)) } catch { throw .unreadable(text) }
        guard let authority = target.authority, let (host, port) = Self.split(authority, defaultPort: isSecure ? 443 : 80) else {
            throw .host(text)
        }
        var keys = ContiguousArray<Key>()
        var segments = target.segments
        if let last = segments.last, last.hasSuffix(".json") {
            segments[segments.count - 1] = String(last.dropLast(".json".count))
            if segments.last?.isEmpty == true { segments.removeLast() }
        }
        if takesPriority, segments.last == ".priority" {
            isPriority = true
            segments.removeLast()
        }
        for segment in segments {
            // A segment with an escaped slash would name a different place than the written one.
            guard let path = try? Path(parsing: segment), path.depth == 1 else { throw .path(segment) }
            keys += path.keys
        }
        guard keys.count <= Path.maxDepth else { throw .path(target.path) }
        address = HubAddress(host: host, port: port, namespace: target.value("ns").flatMap { $0.isEmpty ? nil : $0 }, isSecure: isSecure)
        path = Path(keys)
        parameters = target.query.filter { $0.name != "ns" }.map { Parameter($0.name, $0.value) }
    }

    /// The place's address in REST, without a query: `/users/ana.json`, `/users/ana/.priority.json`.
    public var resource: String {
        let place = path.keys.map { "/" + PercentText.encode($0.string) }.joined()
        return isPriority ? place + "/.priority.json" : (path.isRoot ? "/" : place) + ".json"
    }

    /// Its own and other parameters as a REST query, with the namespace: `?orderBy=%22name%22&ns=demo`; empty without any.
    public func query(adding others: [Parameter] = []) -> String {
        let all = parameters + others + (address.namespace.map { [Parameter("ns", $0)] } ?? [])
        let items = all.map { "\(PercentText.encode($0.name))=\(PercentText.encode($0.value))" }
        return items.isEmpty ? "" : "?" + items.joined(separator: "&")
    }

    public var description: String {
        let scheme = address.isSecure ? "https" : "http"
        let place = path.keys.map { "/" + PercentText.encode($0.string) }.joined()
        let namespace = address.namespace.map { "?ns=" + PercentText.encode($0) } ?? ""
        return "\(scheme)://\(address)\(place)\(isPriority ? "/.priority" : "")\(namespace)"
    }

    private static func split(_ authority: String, defaultPort: UInt16) -> (String, UInt16)? {
        var host = authority[...]
        var port = defaultPort
        if let colon = authority.lastIndex(of: ":"), authority.last != "]" {
            guard let number = UInt16(authority[authority.index(after: colon)...]), number > 0 else { return nil }
            (host, port) = (authority[..<colon], number)
        }
        if host.first == "[", host.last == "]" { host = host.dropFirst().dropLast() }
        return host.isEmpty ? nil : (String(host), port)
    }
}

/// Why a text is not a place in a hub.
public enum HubURLError: Error, Sendable, Equatable, CustomStringConvertible {
    case scheme(String)
    case host(String)
    case path(String)
    case unreadable(String)

    public var description: String {
        switch self {
        case .scheme(let scheme): "\"\(scheme)\" is not a scheme of a hub; write http://HOST:PORT/path?ns=NAME"
        case .host(let text): "no host and port in \"\(text)\"; write http://HOST:PORT/path?ns=NAME"
        case .path(let segment): "\"\(segment)\" cannot be part of a path (32 levels; 768 bytes without . $ # [ ] / each)"
        case .unreadable(let text): "\"\(text)\" is not a URL; write http://HOST:PORT/path?ns=NAME"
        }
    }
}

/// Percent-encoding (RFC 3986 §2.1).
enum PercentText {
    /// Encodes everything except unreserved characters.
    static func encode(_ text: String) -> String { encode(text.utf8, keeping: isUnreserved) }

    /// Encodes only characters that a URL cannot contain, so that people can write spaces and letters of any alphabet.
    static func encodeUnwritten(_ text: Substring) -> String { encode(text.utf8) { $0 > 0x20 && $0 < 0x7F } }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"): true
        default: false
        }
    }

    private static func encode(_ bytes: some Sequence<UInt8>, keeping isKept: (UInt8) -> Bool) -> String {
        let hex = Array("0123456789ABCDEF".utf8)
        var out: [UInt8] = []
        for byte in bytes {
            if isKept(byte) { out.append(byte) } else { out += [UInt8(ascii: "%"), hex[Int(byte >> 4)], hex[Int(byte & 15)]] }
        }
        return String(decoding: out, as: UTF8.self)
    }
}
