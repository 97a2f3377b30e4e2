import WireProtocols

/// Names of databases (contract §1.1).
public enum Namespace {
    /// The namespace of a request: the `ns` parameter, else the first label of a host with at least three, else the default.
    static func name(of request: HTTPInboundRequest, default fallback: String) -> String {
        if let ns = request.target.value("ns"), !ns.isEmpty { return ns }
        guard let host = request.host else { return fallback }
        let name = host.prefix { $0 != ":" }
        let labels = name.split(separator: ".")
        guard labels.count >= 3, !host.hasPrefix("["), !labels.allSatisfy({ $0.allSatisfy(\.isNumber) }) else { return fallback }
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
