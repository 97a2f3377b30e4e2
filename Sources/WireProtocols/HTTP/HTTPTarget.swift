/// A request target (RFC 9112 §3.2), split and percent-decoded.
///
/// `/a/b%20c.json?ns=demo&x=1+2` → segments `["a", "b c.json"]`, query `[("ns","demo"), ("x","1 2")]`.
/// Empty segments are dropped (contract §1.1: repeated slashes collapse). A decoded segment may contain any character, even `/` or `..`:
/// callers that map segments to keys or files must check them.
public struct HTTPTarget: Sendable, Hashable {
    public struct QueryItem: Sendable, Hashable {
        public var name: String
        /// Empty for `?name` and `?name=`.
        public var value: String
    }

    /// The path as sent, percent-encoded, beginning with `/`; `*` for the asterisk form.
    public let path: String
    /// Host and port of an absolute-form target, which outranks the Host field (RFC 9112 §3.2.2).
    public let authority: String?
    /// Decoded path segments without empty ones.
    public let segments: [String]
    /// Whether the path ends in `/`, as the root does.
    public let hasTrailingSlash: Bool
    /// Decoded query items in the order sent.
    public let query: [QueryItem]
    /// The query as sent, without `?`; nil when there was none.
    public let rawQuery: String?

    /// The first value of query item `name`.
    public func value(_ name: String) -> String? {
        for item in query where item.name == name { return item.value }
        return nil
    }

    /// Parses origin form, absolute form (`http` and `https`) and `*`.
    public init(_ text: String) throws(HTTPFailure) {
        self = try Array(text.utf8).withUnsafeBufferPointer { bytes throws(HTTPFailure) in
            try HTTPTarget(bytes: UnsafeRawBufferPointer(bytes))
        }
    }

    init(bytes: UnsafeRawBufferPointer) throws(HTTPFailure) {
        // VCHAR only. `"` and similar are not strict RFC 3986, but curl sends them in every published REST example.
        guard !bytes.isEmpty, bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") }) else {
            throw .badTarget
        }
        var rest = bytes[...]
        if rest.elementsEqual("*".utf8) {
            self.init(path: "*", authority: nil, segments: [], hasTrailingSlash: false, query: [], rawQuery: nil)
            return
        }
        var authority: String?
        if rest[0] != UInt8(ascii: "/") {
            guard let colon = rest.firstIndex(of: UInt8(ascii: ":")),
                ["http", "https"].contains(String(decoding: rest[..<colon], as: UTF8.self).lowercased()),
                rest[colon...].starts(with: "://".utf8)
            else { throw .badTarget }
            rest = rest[(colon + 3)...]
            let end = rest.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? rest.endIndex
            let host = String(decoding: rest[..<end], as: UTF8.self)
            guard HTTPTarget.isHost(host), !host.isEmpty else { throw .badTarget }
            authority = host
            rest = rest[end...]
        }
        let mark = bytes.position(of: UInt8(ascii: "?"), in: rest.indices)
        let path = rest[..<(mark ?? rest.endIndex)]
        let rawQuery = mark.map { rest[($0 + 1)...] }

        var segments: [String] = []
        for segment in path.split(separator: UInt8(ascii: "/")) {
            segments.append(try HTTPTarget.decode(segment, plusIsSpace: false))
        }
        var query: [QueryItem] = []
        var next = rawQuery?.startIndex ?? bytes.count
        while next < bytes.count {
            let end = bytes.position(of: UInt8(ascii: "&"), in: next..<bytes.count) ?? bytes.count
            defer { next = end + 1 }
            if end == next { continue }
            let equals = bytes.position(of: UInt8(ascii: "="), in: next..<end)
            let name = try HTTPTarget.decode(bytes[next..<(equals ?? end)], plusIsSpace: true)
            let value = try equals.map { at throws(HTTPFailure) in
                try HTTPTarget.decode(bytes[(at + 1)..<end], plusIsSpace: true)
            }
            query.append(QueryItem(name: name, value: value ?? ""))
        }
        self.init(
            path: path.isEmpty ? "/" : String(decoding: path, as: UTF8.self), authority: authority, segments: segments,
            hasTrailingSlash: path.last.map { $0 == UInt8(ascii: "/") } ?? true, query: query,
            rawQuery: rawQuery.map { String(decoding: $0, as: UTF8.self) })
    }

    private init(
        path: String, authority: String?, segments: [String], hasTrailingSlash: Bool, query: [QueryItem],
        rawQuery: String?
    ) {
        self.path = path
        self.authority = authority
        self.segments = segments
        self.hasTrailingSlash = hasTrailingSlash
        self.query = query
        self.rawQuery = rawQuery
    }

    private static func decode(
        _ bytes: Slice<UnsafeRawBufferPointer>, plusIsSpace: Bool
    ) throws(HTTPFailure) -> String {
        let (whole, range) = (bytes.base, bytes.indices)
        // A target is ASCII: without escapes no decoding is needed. Long polling sends kilobytes without escapes.
        if whole.position(
            of: UInt8(ascii: "%"), in: range
        ) == nil, !plusIsSpace || whole.position(of: UInt8(ascii: "+"), in: range) == nil {
            return String(decoding: bytes, as: UTF8.self)
        }
        var decoded: [UInt8] = []
        decoded.reserveCapacity(bytes.count)
        var at = bytes.startIndex
        while at < bytes.endIndex {
            switch bytes[at] {
            case UInt8(ascii: "%"):
                guard at + 2 < bytes.endIndex, let high = bytes[at + 1].hexValue, let low = bytes[at + 2].hexValue else {
                    throw .badPercentEncoding
                }
                decoded.append(high << 4 | low)
                at += 3
            case UInt8(ascii: "+") where plusIsSpace:
                decoded.append(0x20)
                at += 1
            case let byte:
                decoded.append(byte)
                at += 1
            }
        }
        guard decoded.withUnsafeBytes(UTF8Validator.isValid) else { throw .badPercentEncoding }
        return String(decoding: decoded, as: UTF8.self)
    }

    /// Whether all characters are valid in `uri-host [":" port]`; does not parse it. An empty Host is legal.
    static func isHost(_ text: String) -> Bool {
        text.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
            case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: ":"),
                UInt8(ascii: "["), UInt8(ascii: "]"), UInt8(ascii: "%"), UInt8(ascii: "!"), UInt8(ascii: "$"),
                UInt8(ascii: "&"), UInt8(ascii: "'"), UInt8(ascii: "("), UInt8(ascii: ")"), UInt8(ascii: "*"),
                UInt8(ascii: "+"), UInt8(ascii: ","), UInt8(ascii: ";"), UInt8(ascii: "="):
                true
            default: false
            }
        }
    }
}
