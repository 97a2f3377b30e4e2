/// Decides at random whether the connections of a turn are flushed from the last to the first.
///
/// A client that receives an event first can react first: with a fixed order the same one of two competing clients would always win.
struct FlushOrder {
    private var state: UInt64 = 1

    /// The top bit of a linear congruential sequence. Its cost is negligible next to a system call.
    mutating func isReversed() -> Bool {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return state >> 63 == 1
    }
}
