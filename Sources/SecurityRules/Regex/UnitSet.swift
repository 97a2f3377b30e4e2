/// A set of UTF-16 code units as ascending ranges that neither overlap nor touch.
struct UnitSet: Hashable {
    private(set) var ranges: [ClosedRange<UInt16>]

    static let all = UnitSet(ranges: [0...UInt16.max])
    static let digits = UnitSet([UInt16(UInt8(ascii: "0"))...UInt16(UInt8(ascii: "9"))])
    static let word = UnitSet([0x30...0x39, 0x41...0x5A, 0x5F...0x5F, 0x61...0x7A])
    /// Space, tab, line feed and carriage return (rules contract §9).
    static let space = UnitSet([0x09...0x0A, 0x0D...0x0D, 0x20...0x20])

    private init(ranges: [ClosedRange<UInt16>]) { self.ranges = ranges }

    /// The union of any ranges.
    init(_ ranges: [ClosedRange<UInt16>]) {
        var merged: [ClosedRange<UInt16>] = []
        for range in ranges.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            if let last = merged.last, Int(range.lowerBound) <= Int(last.upperBound) + 1 {
                merged[merged.count - 1] = last.lowerBound...max(last.upperBound, range.upperBound)
            } else {
                merged.append(range)
            }
        }
        self.ranges = merged
    }

    init(_ unit: UInt16) { ranges = [unit...unit] }

    func union(_ other: UnitSet) -> UnitSet { UnitSet(ranges + other.ranges) }

    var inverted: UnitSet {
        var gaps: [ClosedRange<UInt16>] = []
        var next = 0
        for range in ranges {
            if next < Int(range.lowerBound) { gaps.append(UInt16(next)...range.lowerBound - 1) }
            next = Int(range.upperBound) + 1
        }
        if next <= Int(UInt16.max) { gaps.append(UInt16(next)...UInt16.max) }
        return UnitSet(ranges: gaps)
    }

    func contains(_ unit: UInt16) -> Bool {
        var (low, high) = (0, ranges.count)
        while low < high {
            let middle = (low + high) / 2
            if ranges[middle].upperBound < unit { low = middle + 1 } else { high = middle }
        }
        return low < ranges.count && ranges[low].lowerBound <= unit
    }

    /// Adds the other case of every letter. ASCII letters pair only with ASCII letters; others by Unicode's simple mapping if both forms
    /// are one code unit.
    var foldingCase: UnitSet {
        var added = ranges
        for letter in UInt16(0x61)...0x7A {
            if contains(letter) { added.append(letter - 32...letter - 32) }
            if contains(letter - 32) { added.append(letter...letter) }
        }
        if ranges.contains(where: { $0.upperBound >= 0x80 }) {
            for (lower, upper) in Self.casePairs {
                if contains(lower) { added.append(upper...upper) }
                if contains(upper) { added.append(lower...lower) }
            }
        }
        return UnitSet(added)
    }

    private static let casePairs: [(lower: UInt16, upper: UInt16)] = {
        var pairs: [(UInt16, UInt16)] = []
        for unit in UInt16(0x80)...0xFFFD {
            guard let scalar = Unicode.Scalar(unit) else { continue }
            for mapping in [scalar.properties.lowercaseMapping, scalar.properties.uppercaseMapping] {
                let units = Array(mapping.utf16)
                if units.count == 1, units[0] != unit, units[0] >= 0x80 { pairs.append((units[0], unit)) }
            }
        }
        return pairs
    }()
}
