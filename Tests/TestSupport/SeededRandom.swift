/// SplitMix64: the same numbers for the same seed on every machine, so that a failing round can be repeated by its seed.
package struct SeededRandom: RandomNumberGenerator {
    private var state: UInt64

    package init(_ seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound` - 1.
    package mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }

    /// True in this percentage of calls.
    package mutating func chance(_ percent: Int) -> Bool { below(100) < percent }

    /// One of the choices, which must not be empty.
    package mutating func pick<C: RandomAccessCollection>(_ choices: C) -> C.Element {
        choices[choices.index(choices.startIndex, offsetBy: below(choices.count))]
    }
}
