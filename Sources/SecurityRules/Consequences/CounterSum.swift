import JSONTree

/// A counter's value while it is added up, in whole millionths. Additions are exact, so whoever changes a member and takes the change back
/// leaves the sum as it was.
struct CounterSum: Equatable, Sendable {
    private var millionths: Int128

    static let zero = CounterSum(millionths: 0)

    /// Numbers with a fraction count up to here, ± a billion: a `Double` tells the millionths of a sum apart until then.
    private static let fractionBound = 1e9
    private static let scale: Int128 = 1_000_000

    private init(millionths: Int128) { self.millionths = millionths }

    /// A number of children.
    init(count: Int) { millionths = Int128(count) * Self.scale }

    /// What a member adds: a whole number up to ±2^53, or another one up to ± a billion, rounded to six decimals. Nil where it does not
    /// count.
    init?(member node: Node) {
        switch node {
        case .int(let number) where number.magnitude <= 1 << 53: millionths = Int128(number) * Self.scale
        case .double(let number) where number.magnitude <= Self.fractionBound: millionths = Int128((number * 1e6).rounded())
        default: return nil
        }
    }

    /// The sum that a stored counter stands for; 0 where there is no number. Nil where several sums look the same, because `node` had to
    /// round: the members have to be added up again.
    init?(stored node: Node) {
        switch node {
        // The next number may be a whole one away, so a fraction does not show.
        case .int(let number) where (1 << 52 ... 1 << 53).contains(number.magnitude): return nil
        case .int(let number): millionths = Int128(number) * Self.scale
        case .double(let number) where number.magnitude > Self.fractionBound: return nil
        case .double(let number): millionths = Int128((number * 1e6).rounded())
        default: millionths = 0
        }
    }

    /// As it is stored: whole sums as they are up to 64 bits, others as the nearest `Double`, but never as a whole number below 2^52, so
    /// that it shows that this sum was rounded.
    var node: Node {
        let (whole, fraction) = millionths.quotientAndRemainder(dividingBy: Self.scale)
        if fraction == 0, let number = Int64(exactly: whole) { return .int(number) }
        let number = Double(millionths) / 1e6
        guard fraction != 0, number == number.rounded() else { return .number(number) }
        return .number(Double(whole) == number ? number.nextAway : number.nextToZero)
    }

    static func + (a: CounterSum, b: CounterSum) -> CounterSum { CounterSum(millionths: a.millionths + b.millionths) }
    static func - (a: CounterSum, b: CounterSum) -> CounterSum { CounterSum(millionths: a.millionths - b.millionths) }
    static func += (a: inout CounterSum, b: CounterSum) { a.millionths += b.millionths }
    static func -= (a: inout CounterSum, b: CounterSum) { a.millionths -= b.millionths }
}

extension Double {
    fileprivate var nextAway: Double { sign == .plus ? nextUp : nextDown }
    fileprivate var nextToZero: Double { sign == .plus ? nextDown : nextUp }
}
