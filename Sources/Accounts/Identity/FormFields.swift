/// The fields of `application/x-www-form-urlencoded` text, in their order; names may come twice.
struct FormFields: Sendable, Equatable {
    struct Item: Sendable, Equatable {
        let name: String
        let value: String
    }

    private(set) var items: [Item] = []

    /// Nil for text that is not UTF-8, holds U+0000 or a stray `%`.
    init?(_ bytes: [UInt8]) {
        for part in bytes.split(separator: UInt8(ascii: "&")) {
            guard let item = Self.item(part, isLenient: false) else { return nil }
            items.append(item)
        }
    }

    /// Takes text that was not encoded, or half of it was, for what it looks like: Apple's SDK sends it so (accounts contract §7.1).
    init(lenient text: String) {
        for part in Array(text.utf8).split(separator: UInt8(ascii: "&")) {
            if let item = Self.item(part, isLenient: true) { items.append(item) }
        }
    }

    /// The first value of a name.
    subscript(name: String) -> String? { items.first { $0.name == name }?.value }

    private static func item(_ part: ArraySlice<UInt8>, isLenient: Bool) -> Item? {
        let equals = part.firstIndex(of: UInt8(ascii: "=")) ?? part.endIndex
        guard let name = decode(part[..<equals], isLenient: isLenient) else { return nil }
        return decode(part[equals...].dropFirst(), isLenient: isLenient).map { Item(name: name, value: $0) }
    }

    private static func decode(_ bytes: ArraySlice<UInt8>, isLenient: Bool) -> String? {
        var decoded: [UInt8] = []
        decoded.reserveCapacity(bytes.count)
        var at = bytes.startIndex
        while at < bytes.endIndex {
            let byte = bytes[at]
            if byte == UInt8(ascii: "%") {
                if at + 2 < bytes.endIndex, let high = hex(bytes[at + 1]), let low = hex(bytes[at + 2]) {
                    decoded.append(high << 4 | low)
                    at += 3
                    continue
                }
                guard isLenient else { return nil }
            }
            decoded.append(byte == UInt8(ascii: "+") ? 0x20 : byte)
            at += 1
        }
        guard !decoded.contains(0) else { return nil }
        return isLenient ? String(decoding: decoded, as: UTF8.self) : String(validating: decoded, as: UTF8.self)
    }

    private static func hex(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
