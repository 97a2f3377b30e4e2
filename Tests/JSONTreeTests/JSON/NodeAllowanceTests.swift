import CMalloc
import Testing
@testable import JSONTree

/// The memory budget of a value while it is read, and the accuracy of the estimate.
@Suite(.serialized, .timeLimit(.minutes(30))) struct NodeAllowanceTests {
    /// Grants memory up to a limit, and checks the allocator on each request.
    private final class LimitedHold: MemoryReservation, @unchecked Sendable {
        // Sendable: only one test uses it.
        let limit: Int
        var held = 0
        let start: Int
        /// The most memory allocated beyond the memory granted so far.
        var mostUnpaid = Int.min

        init(_ limit: Int = .max) {
            self.limit = limit
            start = Self.allocated
        }

        func grow(by bytes: Int) -> Bool {
            look()
            guard held + bytes <= limit else { return false }
            held += bytes
            return true
        }

        func look() { mostUnpaid = max(mostUnpaid, Self.allocated - start - held - NodeAllowance.freeBytes) }

        func shrink(to bytes: Int) { held = min(held, bytes) }

        static var allocated: Int { malloc_allocated_bytes() }
    }

    private static func read(_ text: [UInt8], _ allowance: NodeAllowance?) throws -> WriteValue {
        try text.withUnsafeBytes { bytes in
            var reader = JSONReader(bytes)
            return try reader.writeValue(allowance: allowance)
        }
    }

    private static func repeated(_ count: Int, _ open: String, _ close: String, _ element: (Int) -> String) -> [UInt8] {
        var bytes = Array(open.utf8)
        for i in 0..<count {
            if i > 0 { bytes.append(UInt8(ascii: ",")) }
            bytes += element(i).utf8
        }
        return bytes + Array(close.utf8)
    }

    /// Texts of many megabytes of values.
    static let shapes: [(name: String, text: @Sendable () -> [UInt8])] = [
        ("ones", { repeated(600_000, "[", "]") { _ in "1" } }),
        ("small arrays", { repeated(150_000, "[", "]") { _ in "[1]" } }),
        (
            "records",
            { repeated(60_000, "{", "}") { #""k\#(100_000 + $0)":{"lat":37.9,"lng":23.7,"name":"a","time":1718000000000,"user":"u1"}"# } }),
        ("long strings", { repeated(60_000, "[", "]") { "\"\(String(repeating: "x", count: 100 + $0 % 100))\"" } }),
        ("long names", { repeated(100_000, "{", "}") { "\"a-name-that-is-not-short-\(100_000 + $0)\":true" } }),
        ("names without order", { repeated(150_000, "{", "}") { "\"k\(($0 * 7_919) % 1_000_003)\":1" } }),
    ]

    /// In a separate process: the allocator counts the memory of all threads.
    @Test(arguments: NodeAllowanceTests.shapes.indices) func estimate_isWhatIsAllocated(shape: Int) async {
        await #expect(processExitsWith: .success) { [shape = shape as Int] in
            let (name, make) = Self.shapes[shape]
            let text = make()
            let hold = LimitedHold()
            let allowance = NodeAllowance(hold)
            let value = try Self.read(text, allowance)
            let kept = LimitedHold.allocated - hold.start
            let (bytes, _) = allowance.end()
            withExtendedLifetime(value) {}
            let ratio = Double(bytes) / Double(kept)
            #expect((0.7...1.3).contains(ratio), "\(name): estimated \(bytes), kept \(kept)")
            #expect(hold.mostUnpaid < bytes * 3 / 10, "\(name): \(hold.mostUnpaid) more than paid of \(bytes)")
        }
    }

    /// The need depends on the capacities of arrays, which the allocator influences: it varies a little from read to read.
    @Test func value_thatFits_isRead_withATenthLessItIsRefused() throws {
        let text = Self.repeated(300_000, "[", "]") { _ in "1" }
        let all = LimitedHold()
        let allowance = NodeAllowance(all)
        _ = try Self.read(text, allowance)
        let need = all.held
        #expect(need > 800_000)
        _ = try Self.read(text, NodeAllowance(LimitedHold(need * 11 / 10)))
        #expect(throws: JSONError.self) { _ = try Self.read(text, NodeAllowance(LimitedHold(need * 9 / 10))) }
    }

    @Test func refusal_comesAsSoonAsNothingIsLeft() throws {
        // The text after the refusal is not JSON: parsing must have stopped before it.
        let text = Self.repeated(1_000_000, "[", "") { _ in "1" } + Array("!".utf8)
        let hold = LimitedHold(1 << 20)
        do {
            _ = try Self.read(text, NodeAllowance(hold))
            Issue.record("read")
        } catch let error as JSONError {
            guard case .overBudget(let offset) = error else { throw error }
            #expect(offset < 800_000)
        }
        #expect(hold.held <= 1 << 20)
    }

    /// Two bytes of JSON each: the highest memory use per byte of a body.
    @Test func longArrayOfSmallNumbers_takesAtMostTwiceItsText() throws {
        for element in ["1", "\"\"", "-1", "300"] {
            let text = Self.repeated(300_000, "[", "]") { _ in element }
            let node = try Self.read(text, nil).node
            #expect(node.memoryBytes < 2 * text.count, "\(element): \(node.memoryBytes) of \(text.count)")
        }
    }

    @Test func smallValue_asksNobody() throws {
        let hold = LimitedHold(0)
        let allowance = NodeAllowance(hold)
        _ = try Self.read(Self.repeated(100, "[", "]") { _ in "1" }, allowance)
        #expect(allowance.end().bytes > 500)
        #expect(hold.mostUnpaid == .min)
        // Without a hold, only the free bytes are available.
        #expect(throws: JSONError.self) { _ = try Self.read(Self.repeated(30_000, "[", "]") { _ in "1" }, NodeAllowance()) }
    }

    @Test func value_isTheSame_withAnAllowanceAndWithout() throws {
        for (name, make) in Self.shapes {
            let text = make().prefix(40_000)
            // Cut after the last whole element.
            let end = try #require(text.lastIndex(of: UInt8(ascii: ",")))
            let whole = Array(text[..<end]) + [text.first == UInt8(ascii: "[") ? UInt8(ascii: "]") : UInt8(ascii: "}")]
            guard let plain = try? Self.read(whole, nil) else { continue }
            #expect(try Self.read(whole, NodeAllowance(LimitedHold())) == plain, "\(name)")
        }
    }

    @Test func claims_haveAnAllowance_too() throws {
        let text = Self.repeated(50_000, "{\"a\":[", "]}") { _ in "{\"b\":1}" }
        func claims(_ hold: LimitedHold) throws -> Node {
            try text.withUnsafeBytes { bytes in
                var reader = JSONReader(bytes)
                return try reader.claims(allowance: NodeAllowance(hold))
            }
        }
        #expect(try claims(LimitedHold()).child("a").childCount == 50_000)
        #expect(throws: JSONError.self) { _ = try claims(LimitedHold(1 << 20)) }
    }
}
