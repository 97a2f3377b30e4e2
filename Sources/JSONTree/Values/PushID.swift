/// Makes push ids: 20 characters that sort by time of creation (contract §5).
///
///     |—— 8 characters: ms since the epoch ——|—— 12 random characters; +1 within the same ms ——|
public struct PushIDGenerator: Sendable {
    private static let alphabet = Array("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz".utf8)
    private var lastMs: Int64 = -1
    private var random = [UInt8](repeating: 0, count: 12)

    public init() {}

    /// - Parameter now: ms since the epoch. When the clock steps back, the last time is used, so ids always ascend.
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
        var characters = [UInt8](repeating: 0, count: 8)
        var time = lastMs
        for i in stride(from: 7, through: 0, by: -1) {
            characters[i] = Self.alphabet[Int(time & 63)]
            time >>= 6
        }
        characters.append(contentsOf: random.map { Self.alphabet[Int($0)] })
        return Key(String(decoding: characters, as: UTF8.self))
    }
}
