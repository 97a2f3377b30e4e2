/// Appends JSON text to a byte buffer. The caller writes punctuation with `raw`; values are escaped and formatted here.
public struct JSONWriter {
    public var bytes: [UInt8]

    public init(reservingCapacity capacity: Int = 256) {
        bytes = []
        bytes.reserveCapacity(capacity)
    }

    /// Appends encoded JSON.
    @inline(__always)
    public mutating func raw(_ text: StaticString) {
        bytes.append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    public mutating func raw(_ text: some Sequence<UInt8>) { bytes.append(contentsOf: text) }

    public mutating func int(_ value: Int64) {
        if value >= 0, value < 10 {
            bytes.append(UInt8(ascii: "0") + UInt8(value))
            return
        }
        var digits: (UInt64, UInt64, UInt64) = (0, 0, 0)
        withUnsafeMutableBytes(of: &digits) { buffer in
            var (i, rest) = (buffer.count, value.magnitude)
            repeat {
                i -= 1
                buffer[i] = UInt8(ascii: "0") + UInt8(rest % 10)
                rest /= 10
            } while rest > 0
            if value < 0 {
                i -= 1
                buffer[i] = UInt8(ascii: "-")
            }
            bytes.append(contentsOf: buffer[i...])
        }
    }

    /// A finite double in its shortest form, equal to `description`.
    public mutating func double(_ value: Double) {
        guard let decimal = ShortDecimal(value) else { return raw(value.description.utf8) }
        if value < 0 { bytes.append(UInt8(ascii: "-")) }
        int(decimal.whole)
        var fraction = decimal.fraction
        guard fraction > 0 else { return raw(".0") }
        bytes.append(UInt8(ascii: "."))
        var divisor: Int64 = 1_000_000
        while fraction > 0 {
            bytes.append(UInt8(ascii: "0") + UInt8(fraction / divisor))
            fraction %= divisor
            divisor /= 10
        }
    }

    /// A quoted string with control characters, quotes and backslashes escaped.
    public mutating func string(_ text: String) { string(Text(text)) }

    public mutating func string(_ text: Text) { text.withBytes { string($0) } }

    mutating func string(_ text: UnsafeBufferPointer<UInt8>) {
        bytes.append(UInt8(ascii: "\""))
        escape(text)
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func escape(_ text: UnsafeBufferPointer<UInt8>) {
        guard let base = UnsafeRawPointer(text.baseAddress) else { return }
        var (clean, i) = (0, 0)
        let count = text.count
        while i < count {
            if i &+ 8 <= count, !JSONText.hasSpecial(base.loadUnaligned(fromByteOffset: i, as: UInt64.self)) {
                i &+= 8
                continue
            }
            let stop = min(count, i &+ 8)
            while i < stop {
                let byte = text[i]
                if byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") {
                    bytes.append(contentsOf: UnsafeBufferPointer(rebasing: text[clean..<i]))
                    clean = i &+ 1
                    escape(byte)
                }
                i &+= 1
            }
        }
        bytes.append(contentsOf: UnsafeBufferPointer(rebasing: text[clean...]))
    }

    private mutating func escape(_ byte: UInt8) {
        bytes.append(UInt8(ascii: "\\"))
        switch byte {
        case 0x0A: bytes.append(UInt8(ascii: "n"))
        case 0x0D: bytes.append(UInt8(ascii: "r"))
        case 0x09: bytes.append(UInt8(ascii: "t"))
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes.append(byte)
        default:
            bytes.append(contentsOf: "u00".utf8)
            bytes.append(Self.hex[Int(byte >> 4)])
            bytes.append(Self.hex[Int(byte & 15)])
        }
    }

    private static let hex = Array("0123456789abcdef".utf8)

    /// A path as a quoted string in the form of server pushes: `"a/b"`, `""` for the root.
    public mutating func path(_ keys: ContiguousArray<Key>) { keys.withUnsafeBufferPointer { path($0) } }

    /// A part of a path as a quoted string. Not generic: across modules the unspecialized form would run, which costs several times as much.
    public mutating func path(_ keys: ArraySlice<Key>) { keys.withUnsafeBufferPointer { path($0) } }

    /// Keys are read in place and not retained.
    private mutating func path(_ keys: UnsafeBufferPointer<Key>) {
        bytes.append(UInt8(ascii: "\""))
        for i in keys.indices {
            if i > 0 { bytes.append(UInt8(ascii: "/")) }
            if let first = keys.baseAddress { TextCursor(first + i).withBytes { escape($0) } }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    /// A node in export form (contract §4.3): objects with `.priority` inside, prioritised leaves as `.value` and `.priority`.
    public mutating func node(_ node: Node) { withUnsafePointer(to: node) { self.node(NodeCursor($0)) } }

    public mutating func node(_ node: NodeCursor) {
        switch node.kind {
        case .null: raw("null")
        case .bool(let value): value ? raw("true") : raw("false")
        case .int(let value): int(value)
        case .double(let value): double(value)
        case .text(let text): text.withBytes { string($0) }
        case .prioritized:
            raw("{\".value\":")
            self.node(node.leaf)
            raw(",\".priority\":")
            self.node(node.priority)
            raw("}")
        case .object:
            if node.form == .packed { return PackedJSON.append(PackedValue(node.address), to: &bytes, showsPriorities: true) }
            raw("{")
            var isFirst = true
            _ = node.allChildren { key, child in
                if !isFirst { bytes.append(UInt8(ascii: ",")) }
                isFirst = false
                key.withBytes { string($0) }
                bytes.append(UInt8(ascii: ":"))
                self.node(child)
                return true
            }
            let priority = node.priority
            if priority.exists {
                raw(",\".priority\":")
                self.node(priority)
            }
            raw("}")
        }
    }
}

extension Node {
    /// The node's export form as JSON text.
    public var json: String {
        var writer = JSONWriter()
        writer.node(self)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// Parses export-form JSON; server values are refused. For seeds, tests and tools.
    public init(json: String) throws(JSONError) {
        var native = json
        let result: Result<Node, JSONError> = native.withUTF8 { bytes in
            do throws(JSONError) {
                var reader = JSONReader(UnsafeRawBufferPointer(bytes))
                let value = try reader.writeValue()
                try reader.expectEnd()
                guard value.deferred.isEmpty else { throw .unknownServerValue(offset: 0) }
                return .success(value.node)
            } catch { return .failure(error) }
        }
        self = try result.get()
    }
}
