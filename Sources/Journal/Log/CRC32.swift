/// CRC-32 (IEEE 802.3, reflected), eight bytes per step. Finds flipped bits, not intent.
struct CRC32 {
    private var state: UInt32 = 0xFFFF_FFFF

    var value: UInt32 { ~state }

    mutating func add(_ bytes: UnsafeRawBufferPointer) {
        var crc = state
        var i = 0
        Self.tables.withUnsafeBufferPointer { t in
            while i &+ 8 <= bytes.count {
                let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: i, as: UInt64.self)) ^ UInt64(crc)
                crc = t[1792 &+ Int(word & 255)] ^ t[1536 &+ Int(word >> 8 & 255)] ^ t[1280 &+ Int(word >> 16 & 255)]
                    ^ t[1024 &+ Int(word >> 24 & 255)] ^ t[768 &+ Int(word >> 32 & 255)] ^ t[512 &+ Int(word >> 40 & 255)]
                    ^ t[256 &+ Int(word >> 48 & 255)] ^ t[Int(word >> 56)]
                i &+= 8
            }
            while i < bytes.count {
                crc = crc >> 8 ^ t[Int((crc ^ UInt32(bytes[i])) & 255)]
                i &+= 1
            }
        }
        state = crc
    }

    mutating func add(_ number: UInt64) {
        withUnsafeBytes(of: number.littleEndian) { add($0) }
    }

    /// Eight tables of 256: `tables[256 * k + b]` is the effect of byte `b` after `k` further zero bytes.
    private static let tables: [UInt32] = {
        var tables = [UInt32](repeating: 0, count: 2048)
        for i in 0..<256 {
            var crc = UInt32(i)
            for _ in 0..<8 { crc = crc & 1 == 1 ? crc >> 1 ^ 0xEDB8_8320 : crc >> 1 }
            tables[i] = crc
        }
        for i in 256..<2048 { tables[i] = tables[i - 256] >> 8 ^ tables[Int(tables[i - 256] & 255)] }
        return tables
    }()
}
