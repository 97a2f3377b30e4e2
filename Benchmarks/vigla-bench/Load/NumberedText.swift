import Glibc

/// The messages of a run: `v#00000042` and a filler, all of one length. Received messages are compared byte for byte.
///
/// A server may wrap the text (a realtime push contains it as a JSON string). The wrapping is learned from the first message
/// found; from then on it must be the same.
struct NumberedText {
    /// Bytes of a message.
    let length: Int
    private let filler: [UInt8]
    private var learned: (prefix: [UInt8], suffix: [UInt8])?

    private static let digits = 8
    private static let headBytes = 2 + digits

    /// - Parameter length: at least 10; smaller numbers mean 10.
    init(length: Int) {
        self.length = max(length, Self.headBytes)
        filler = (0..<(self.length - Self.headBytes)).map { UInt8(ascii: "a") + UInt8($0 % 26) }
    }

    func text(_ number: Int) -> [UInt8] {
        let decimal = Array(String(number).utf8)
        let zeros = [UInt8](repeating: UInt8(ascii: "0"), count: max(0, Self.digits - decimal.count))
        return Array("v#".utf8) + zeros + decimal + filler
    }

    /// Bytes of a whole payload, once one was seen.
    var wrappedLength: Int? { learned.map { $0.prefix.count + length + $0.suffix.count } }

    /// The number of the message in a payload; nil when the payload is something else, or not exactly a message.
    mutating func number(in payload: UnsafeRawBufferPointer) -> Int? {
        if learned == nil {
            guard let at = Self.find(payload), at + length <= payload.count else { return nil }
            learned = (Array(payload[..<at]), Array(payload[(at + length)...]))
        }
        guard let learned, payload.count == learned.prefix.count + length + learned.suffix.count,
              let base = payload.baseAddress else { return nil }
        let text = base + learned.prefix.count
        guard memcmp(base, learned.prefix, learned.prefix.count) == 0,
              memcmp(text + Self.headBytes, filler, filler.count) == 0,
              memcmp(text + length, learned.suffix, learned.suffix.count) == 0,
              text.load(as: UInt8.self) == UInt8(ascii: "v") else { return nil }
        var number = 0
        for i in 2..<Self.headBytes {
            let digit = Int(text.load(fromByteOffset: i, as: UInt8.self)) - 48
            guard (0...9).contains(digit) else { return nil }
            number = number * 10 + digit
        }
        return number
    }

    private static func find(_ payload: UnsafeRawBufferPointer) -> Int? {
        guard payload.count >= headBytes else { return nil }
        for i in 0...(payload.count - headBytes)
        where payload[i] == UInt8(ascii: "v") && payload[i + 1] == UInt8(ascii: "#") { return i }
        return nil
    }
}
