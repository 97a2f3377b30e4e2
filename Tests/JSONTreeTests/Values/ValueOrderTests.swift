import JSONTree
import Testing

/// Order of values in indexes (contract §3.2).
@Suite(.timeLimit(.minutes(30))) struct ValueOrderTests {
    /// Ascending; the values of one row are equal in order.
    static let rows: [[Node]] = [
        [.null],
        [false], [true],
        [.double(-.greatestFiniteMagnitude)],
        [.double(-0x1p64)],
        [.int(.min), .double(-0x1p63)],
        [.int(.min + 1)],
        [-5], [-1.5], [-1], [-0.5], [0, .double(-0.0)], [.double(.leastNonzeroMagnitude)], [0.5], [1], [1.5], [2], [10],
        [.int(9_007_199_254_740_992), .double(9_007_199_254_740_992)],
        [.int(9_007_199_254_740_993)],
        [.double(9_007_199_254_740_994)],
        [.int(.max - 1)], [.int(.max)],
        [.double(0x1p63)],
        [.double(.greatestFiniteMagnitude)],
        [""], ["10"], ["2"], ["a"], ["ab"], ["b"], ["\u{10000}"], ["\u{E000}"],
        [["a": 1], ["b": ["c": true]]],
    ]

    @Test func valueOrder_acrossTypes_isTheContractOrder() {
        for (i, row) in Self.rows.enumerated() {
            for (j, other) in Self.rows.enumerated() {
                for a in row {
                    for b in other { #expect(a.valueOrder(b).signum() == (i - j).signum(), "\(a.json) | \(b.json)") }
                }
            }
        }
    }

    @Test func valueOrder_ownPriority_playsNoPart() {
        for (i, row) in Self.rows.enumerated() where i > 0 {
            #expect(row[0].with(priority: "z").valueOrder(row[0].with(priority: 1)) == 0)
            if i + 1 < Self.rows.count { #expect(row[0].with(priority: "z").valueOrder(Self.rows[i + 1][0]) < 0) }
        }
    }
}
