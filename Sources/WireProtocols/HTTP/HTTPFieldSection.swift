import HTTPTypes

/// Reads the field lines of a head or a trailer, strictly (RFC 9112 §5), and counts them against the limits.
struct HTTPFieldSection: Sendable {
    private(set) var fields = HTTPFields()
    private var bytesSeen = 0
    private var count = 0

    /// The maximum length of the next line under `limits`.
    func remaining(_ limits: HTTPLimits) -> Int { max(0, limits.fieldBytes - bytesSeen) }

    /// Reads the next line of the section from the input.
    /// - Returns: true at the end of the section; nil when the input ends before the line does.
    mutating func readLine(
        _ lines: inout HTTPLineReader, _ bytes: UnsafeRawBufferPointer, _ at: inout Int, _ limits: HTTPLimits
    ) throws(HTTPFailure) -> Bool? {
        try lines.next(bytes, &at, limit: remaining(limits), tooLong: .fieldsTooLarge) { line throws(HTTPFailure) in
            try parse(line, limits)
        }
    }

    /// Parses one line; true for the empty one that ends the section.
    mutating func parse(_ line: UnsafeRawBufferPointer, _ limits: HTTPLimits) throws(HTTPFailure) -> Bool {
        if line.isEmpty { return true }
        bytesSeen += line.count + 2
        count += 1
        if bytesSeen > limits.fieldBytes || count > limits.fieldCount { throw .fieldsTooLarge }
        if line[0].isBlank { throw .foldedField }
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > 0 else { throw .badField }
        let nameBytes = UnsafeRawBufferPointer(rebasing: line[..<colon])
        let value = Self.trimmed(UnsafeRawBufferPointer(rebasing: line[(colon + 1)...]))
        guard nameBytes.allSatisfy(\.isToken), value.allSatisfy(\.isFieldContent),
            let name = HTTPField.Name(String(decoding: nameBytes, as: UTF8.self))
        else { throw .badField }
        fields.append(HTTPField(name: name, value: value))
        return false
    }

    /// How the end of the body is determined.
    enum Framing: Hashable {
        case none
        case length(Int)
        case chunked
    }

    /// RFC 9112 §6.3 in its strict reading: one plain Content-Length, or exactly `chunked`, never both.
    func framing(isHTTP10: Bool) throws(HTTPFailure) -> Framing {
        let codings = fields[values: .transferEncoding]
        let lengths = fields[values: .contentLength]
        if !codings.isEmpty {
            if !lengths.isEmpty { throw .ambiguousLength }
            guard !isHTTP10, codings.count == 1, codings[0].lowercased() == "chunked" else {
                throw .unsupportedTransferEncoding
            }
            return .chunked
        }
        guard let length = lengths.first else { return .none }
        guard lengths.count == 1, !length.isEmpty, length.utf8.allSatisfy(\.isDigit) else { throw .badContentLength }
        // A number beyond Int exceeds every body limit.
        return .length(Int(length) ?? .max)
    }

    private static func trimmed(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        var low = 0
        var high = bytes.count
        while low < high, bytes[low].isBlank { low += 1 }
        while low < high, bytes[high - 1].isBlank { high -= 1 }
        return UnsafeRawBufferPointer(rebasing: bytes[low..<high])
    }
}

extension HTTPFields {
    /// The values of all Host fields. `HTTPField.Name` has no member for Host, as HTTPTypes models it as `:authority`.
    var hosts: [String] {
        compactMap { $0.name.canonicalName == "host" ? $0.value : nil }
    }

    /// Whether the connection stays open after the message (RFC 9112 §9.3).
    func keepsAlive(isHTTP11: Bool) -> Bool {
        if hasToken("close", in: .connection) { return false }
        return isHTTP11 || hasToken("keep-alive", in: .connection)
    }

    /// Whether the comma-separated list in fields `name` contains `token`, ASCII case ignored (RFC 9110 §5.6.1).
    func hasToken(_ token: String, in name: HTTPField.Name) -> Bool {
        for value in self[values: name] {
            for element in value.split(separator: ",") {
                let trimmed = element.drop { $0 == " " || $0 == "\t" }
                let end = trimmed.lastIndex { $0 != " " && $0 != "\t" }
                if let end, trimmed[...end].lowercased() == token { return true }
            }
        }
        return false
    }
}

extension UInt8 {
    /// SP or HTAB.
    var isBlank: Bool { self == 0x20 || self == 0x09 }

    var isDigit: Bool { self >= 0x30 && self <= 0x39 }

    /// The value of a hex digit of either case.
    var hexValue: UInt8? {
        switch self {
        case 0x30...0x39: self - 0x30
        case 0x41...0x46: self - 0x41 + 10
        case 0x61...0x66: self - 0x61 + 10
        default: nil
        }
    }

    /// `tchar` of RFC 9110 §5.6.2.
    var isToken: Bool {
        switch self {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        case UInt8(ascii: "!"), UInt8(ascii: "#"), UInt8(ascii: "$"), UInt8(ascii: "%"), UInt8(ascii: "&"),
            UInt8(ascii: "'"), UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: "^"), UInt8(ascii: "_"), UInt8(ascii: "`"), UInt8(ascii: "|"), UInt8(ascii: "~"):
            true
        default: false
        }
    }

    /// VCHAR, obs-text, SP or HTAB (RFC 9110 §5.5).
    var isFieldContent: Bool { self == 0x09 || (self >= 0x20 && self != 0x7F) }
}
