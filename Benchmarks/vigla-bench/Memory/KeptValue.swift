import JSONTree

/// The memory of a value after its JSON was parsed into nodes.
struct KeptValue {
    let jsonBytes: Int
    /// Bytes reported by the allocator.
    let allocated: Int
    /// Bytes reported by the tree itself (`Node.memoryBytes`).
    let counted: Int
    /// Growth of the process by the kept value, and its peak while the JSON was read.
    let resident: Int
    let highest: Int

    /// Reads a value and keeps it until the figures are taken.
    init(reading json: [UInt8]) throws {
        HeapMeter.trim()
        HeapMeter.resetHighest()
        let before = (allocated: HeapMeter.allocated, resident: HeapMeter.resident())
        let node = try json.withUnsafeBytes { bytes in
            var reader = JSONReader(bytes)
            return try reader.writeValue().node
        }
        highest = HeapMeter.highestResident - before.resident
        HeapMeter.trim()
        allocated = HeapMeter.allocated - before.allocated
        resident = HeapMeter.resident() - before.resident
        counted = node.memoryBytes
        jsonBytes = json.count
    }

    /// The JSON of `count` records under push ids, with `fields` short texts each.
    static func records(_ count: Int, fields: Int) -> [UInt8] {
        object(count) { i in
            let members = (0..<fields).map { #""field\#($0)":"value \#((i &* 7919 &+ $0 &* 104_729) % 1_000_000)""# }
            return ("-Nx8sKq2Ld0aB\(1_000_000 + i)", "{\(members.joined(separator: ","))}")
        }
    }

    /// The JSON of `count` integers, ascending by name or in any order.
    static func scalars(_ count: Int, isAscending: Bool) -> [UInt8] {
        // 7,919 is prime and divides no round number: every name occurs once.
        object(count) { i in
            let number = isAscending ? i : i &* 7919 % count
            return ("k\(10_000_000 + number)", String(number))
        }
    }

    /// `[1,1,…]` of about this many bytes.
    static func ones(bytes: Int) -> [UInt8] {
        var json: [UInt8] = [UInt8(ascii: "[")]
        json.reserveCapacity(bytes + 2)
        for _ in 1..<(bytes / 2) {
            json.append(UInt8(ascii: "1"))
            json.append(UInt8(ascii: ","))
        }
        return json + [UInt8(ascii: "1"), UInt8(ascii: "]")]
    }

    private static func object(_ count: Int, _ member: (Int) -> (String, String)) -> [UInt8] {
        var json: [UInt8] = [UInt8(ascii: "{")]
        for i in 0..<count {
            let (name, value) = member(i)
            if i > 0 { json.append(UInt8(ascii: ",")) }
            json += "\"\(name)\":\(value)".utf8
        }
        return json + [UInt8(ascii: "}")]
    }
}
