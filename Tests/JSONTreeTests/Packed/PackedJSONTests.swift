@testable import JSONTree
import Testing
import TestSupport

/// Packed objects as text: written directly into the buffer where there is room, otherwise through temporary memory.
@Suite(.timeLimit(.minutes(30))) struct PackedJSONTests {
    /// The text in a buffer with room for it; the same as without room.
    private func straight(_ node: Node, priorities: Bool, arrays: Bool) throws -> String? {
        guard case .packed(let object) = node else { return nil }
        let most = PackedJSON.mostBytes(object.value.size)
        let texts = [most + 1, 1, most].map { capacity in
            var bytes: [UInt8] = []
            bytes.reserveCapacity(capacity)
            bytes.append(UInt8(ascii: "!"))
            PackedJSON.append(object.value, to: &bytes, showsPriorities: priorities, showsArrays: arrays)
            return String(decoding: bytes.dropFirst(), as: UTF8.self)
        }
        #expect(texts[1] == texts[0] && texts[2] == texts[0])
        #expect(texts[0].utf8.count <= most)
        return texts[0]
    }

    /// The text, encoded through nodes.
    private func plain(_ node: Node, priorities: Bool, arrays: Bool) -> String {
        var leaf = JSONWriter()
        leaf.node(node.leaf)
        let value = String(decoding: leaf.bytes, as: UTF8.self)
        let priority = priorities && node.priority.exists ? #",".priority":\#(node.priority.json)"# : ""
        guard node.hasChildren else { return priority.isEmpty ? value : #"{".value":\#(value)\#(priority)}"# }
        if arrays, priority.isEmpty, node.children.isArray {
            let highest = node.children.lastKey?.integer ?? 0
            let elements = (0...Int(highest)).map { plain(node.child(Key(index: $0)), priorities: priorities, arrays: arrays) }
            return "[" + elements.joined(separator: ",") + "]"
        }
        let members = node.children.map { key, child in
            var name = JSONWriter()
            name.string(key.string)
            return String(decoding: name.bytes, as: UTF8.self) + ":" + plain(child, priorities: priorities, arrays: arrays)
        }
        return "{" + members.joined(separator: ",") + priority + "}"
    }

    @Test(arguments: 1...8) func packedObjects_areTheSameText_asByTheirNodes(seed: Int) throws {
        var random = SeededRandom(UInt64(seed))
        var count = 0
        for _ in 0..<400 {
            var node = random.node(depth: 3)
            if random.chance(30) {
                node = .object((0..<1 + random.below(9)).map { (Key("\($0 * (random.chance(80) ? 1 : 2))"), random.node(depth: 1)) })
            }
            for (priorities, arrays) in [(false, true), (true, false), (true, true), (false, false)] {
                guard let text = try straight(node, priorities: priorities, arrays: arrays) else { continue }
                count += 1
                #expect(text == plain(node, priorities: priorities, arrays: arrays))
            }
        }
        #expect(count > 400)
    }

    @Test func everyByteOfText_andEveryNumber_isAsByTheWriter() throws {
        var members: [(Key, Node)] = []
        for length in 0...20 {
            for byte in [0x00, 0x1F, 0x20, 0x22, 0x5C, 0x0A, 0x7F] as [UInt8] {
                for place in 0..<max(1, length) {
                    var text = [UInt8](repeating: UInt8(ascii: "x"), count: length)
                    if place < length { text[place] = byte }
                    members.append((Key("t"), .string(String(decoding: text, as: UTF8.self))))
                }
            }
        }
        for digits in 0...18 {
            let power = (0..<digits).reduce(Int64(1)) { value, _ in value * 10 }
            for number in [power - 1, power, power + 1, -power, 7 * (power / 10)] { members.append((Key("n"), .int(number))) }
        }
        for number in [Int64.min, .max] { members.append((Key("n"), .int(number))) }
        let doubles = [
            0.1, -0.1, 1.5, -0.0, 12.0, 1e15, 1e14, 123_456.789, 0.000_1, 0.001_234_5, 23.735_000_1, .leastNonzeroMagnitude,
            .greatestFiniteMagnitude, 99_999_999.999_999_9,
        ]
        for number in doubles {
            members.append((Key("d"), .number(number)))
        }
        for member in members {
            let node = Node.object([member])
            let text = try #require(try straight(node, priorities: true, arrays: false))
            #expect(text == plain(node, priorities: true, arrays: false))
            #expect(try Node(json: text) == node)
        }
    }

    @Test func encoder_withRoom_passesTheWantedBytes_byOneObjectAtMost() {
        let record = Node.object((0..<8).map { (Key("field\($0)"), .string(String(repeating: "\u{1}", count: 90))) })
        let root = Node.object((0..<200).map { (Key("k\(1000 + $0)"), record) })
        var encoder = NodeEncoder(root)
        var total = 0
        while !encoder.isDone {
            var piece = JSONWriter(reservingCapacity: 4096 + NodeEncoder.slackBytes)
            let capacity = piece.bytes.capacity
            encoder.write(to: &piece, atLeast: 4096)
            #expect(piece.bytes.capacity == capacity && piece.bytes.count <= 4096 + NodeEncoder.slackBytes)
            total += piece.bytes.count
        }
        #expect(total == root.json.utf8.count)
    }
}
