/// Generates push ids: 20 characters that sort by creation time (contract §5).
///
///     |—— 8 characters: ms since the epoch ——|—— 12 random characters; +1 within the same ms ——|
public struct PushIDGenerator: Sendable {
    private static let alphabet = Array("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz".utf8)
    private var lastMs: Int64 = -1
    private var random = [UInt8](repeating: 0, count: 12)

    public init() {}

    /// - Parameter now: ms since the epoch. If the clock steps back, the last time is used, so ids always ascend.
    public mutating func next(now: Int64) -> Key {
        if now > lastMs {
            lastMs = now
            for i in random.indices { random[i] = UInt8.random(in: 0..<64) }
        } else {
            var i = random.count - 1
            while i >= 0, random[i] == 63 {
                random[i] = 0
                i -= 1
            }
            if i >= 0 { random[i] += 1 } else { lastMs += 1 }
        }
        return Self.id(lastMs, random)
    }

    /// A reproducible id for an event at a time, distinguished by a name.
    public static func id(now: Int64, of name: String) -> Key {
        // FNV-1a from two start values, for 72 bits.
        var (a, b): (UInt64, UInt64) = (0xCBF2_9CE4_8422_2325, 0x9AE1_6A3B_2F90_404F)
        for byte in name.utf8 {
            a = (a ^ UInt64(byte)) &* 0x100_0000_01B3
            b = (b ^ UInt64(byte)) &* 0x100_0000_01B3
        }
        var rest = [UInt8]()
        for _ in 0..<6 {
            rest += [UInt8(a & 63), UInt8(b & 63)]
            (a, b) = (a >> 6, b >> 6)
        }
        return id(max(0, now), rest)
    }

    private static func id(_ ms: Int64, _ random: [UInt8]) -> Key {
        var characters = [UInt8](repeating: 0, count: 8)
        var time = ms
        for i in stride(from: 7, through: 0, by: -1) {
            characters[i] = alphabet[Int(time & 63)]
            time >>= 6
        }
        characters.append(contentsOf: random.map { alphabet[Int($0)] })
        return Key(String(decoding: characters, as: UTF8.self))
    }
}
