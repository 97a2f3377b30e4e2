import WireProtocols

/// Names of databases (contract §1.1).
public enum Namespace {
    /// The namespace of a request: the `ns` parameter, else the first label of a host with at least three, else the default.
    static func name(of request: HTTPInboundRequest, default fallback: String) -> String {
        if let ns = request.target.value("ns"), !ns.isEmpty { return ns }
        return request.host.flatMap(label(of:)) ?? fallback
    }

    /// Whether a request names its database, by `ns` or by its host.
    static func isNamed(by request: HTTPInboundRequest) -> Bool {
        request.target.value("ns")?.isEmpty == false || request.host.flatMap(label(of:)) != nil
    }

    /// The first label of a host with at least three, in lower case; nil for other hosts and for addresses.
    static func label(of host: String) -> String? {
        let labels = host.prefix { $0 != ":" }.split(separator: ".")
        guard labels.count >= 3, !host.hasPrefix("["), !labels.allSatisfy({ $0.allSatisfy(\.isNumber) }) else { return nil }
        return labels[0].lowercased()
    }

    /// 1–64 letters, digits, `-` and `_`: safe in file names, logs and URLs.
    public static func isValid(_ name: String) -> Bool {
        (1...64).contains(name.utf8.count)
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                    UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }
}
