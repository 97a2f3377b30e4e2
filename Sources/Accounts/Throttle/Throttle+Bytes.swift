import DispatchNet

// States as the store keeps them: big-endian 64-bit numbers, one after the other.

extension TokenBucket {
    var bytes: [UInt8] { bigEndian([max(0, fullAt)]) }

    init?(_ bytes: [UInt8]) {
        guard bytes.count == 8 else { return nil }
        let fullAt = Int64(bitPattern: bigEndian(bytes[...]))
        guard plausible ~= fullAt else { return nil }
        self.init(fullAt: fullAt)
    }
}

extension Failures {
    var bytes: [UInt8] { bigEndian([recent, consecutive, max(0, blockedUntil), max(0, last)]) }

    init?(_ bytes: [UInt8]) {
        guard bytes.count == 32 else { return nil }
        let numbers = stride(from: 0, to: 32, by: 8).map { Int64(bitPattern: bigEndian(bytes[$0..<$0 + 8])) }
        guard numbers.allSatisfy({ plausible ~= $0 }) else { return nil }
        (recent, consecutive, blockedUntil, last) = (numbers[0], numbers[1], numbers[2], numbers[3])
    }
}

/// Of counts and times: a damaged row must not lead to an overflow.
private let plausible: ClosedRange<Int64> = 0...(1 << 53)

private func bigEndian(_ numbers: [Int64]) -> [UInt8] {
    numbers.flatMap { number in (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * $0)) } }
}

func bigEndian(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
