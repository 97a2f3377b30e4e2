import JSONTree

/// A counter's value during addition, in whole millionths. Additions are exact: changing a member and changing it back leaves the sum as it
/// was.
struct CounterSum: Comparable, Sendable {
    private var millionths: Int128

    static let zero = CounterSum(millionths: 0)

    /// The largest magnitude with a fraction, ± a billion: up to it, a `Double` distinguishes millionths of a sum.
    private static let fractionBound = 1e9
    private static let scale: Int128 = 1_000_000

    private init(millionths: Int128) { self.millionths = millionths }

    init(count: Int) { millionths = Int128(count) * Self.scale }

    /// The amount that a member adds: a whole number up to ±2^53, or another number up to ± a billion, rounded to six decimals. Nil if it
    /// does not count.
    init?(member node: Node) {
        switch node {
        case .int(let number) where number.magnitude <= 1 << 53: millionths = Int128(number) * Self.scale
        case .double(let number) where number.magnitude <= Self.fractionBound: millionths = Int128((number * 1e6).rounded())
        default: return nil
        }
    }

    /// The sum that a stored counter represents; 0 if it is not a number. Nil if several sums are stored alike because `node` rounded: then
    /// the members must be added up again.
    init?(stored node: Node) {
        switch node {
        // Adjacent doubles may differ by one here, so a fraction is lost.
        case .int(let number) where (1 << 52 ... 1 << 53).contains(number.magnitude): return nil
        case .int(let number): millionths = Int128(number) * Self.scale
        case .double(let number) where number.magnitude > Self.fractionBound: return nil
        case .double(let number): millionths = Int128((number * 1e6).rounded())
        default: millionths = 0
        }
    }

    /// The stored form. Whole sums are stored exactly up to 64 bits, others as the nearest `Double`. A rounded sum is never stored as a
    /// whole number below 2^52, so that the rounding remains visible.
    var node: Node {
        let (whole, fraction) = millionths.quotientAndRemainder(dividingBy: Self.scale)
        if fraction == 0, let number = Int64(exactly: whole) { return .int(number) }
        let number = Double(millionths) / 1e6
        guard fraction != 0, number == number.rounded() else { return .number(number) }
        return .number(Double(whole) == number ? number.nextAway : number.nextToZero)
    }

    static func < (a: CounterSum, b: CounterSum) -> Bool { a.millionths < b.millionths }
    static func + (a: CounterSum, b: CounterSum) -> CounterSum { CounterSum(millionths: a.millionths + b.millionths) }
    static func - (a: CounterSum, b: CounterSum) -> CounterSum { CounterSum(millionths: a.millionths - b.millionths) }
}

extension Double {
    fileprivate var nextAway: Double { sign == .plus ? nextUp : nextDown }
    fileprivate var nextToZero: Double { sign == .plus ? nextDown : nextUp }
}
