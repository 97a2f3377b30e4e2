/// Writes packed objects as JSON text directly into memory with capacity for their longest text. Nothing is checked for capacity or passes
/// through an array on the way. The text equals that of the node encoders.
struct PackedJSON {
    let showsPriorities: Bool
    /// Whether objects with index keys become arrays; never those with a visible priority.
    let showsArrays: Bool
    private var next: UnsafeMutableRawPointer

    private init(_ target: UnsafeMutableRawPointer, showsPriorities: Bool, showsArrays: Bool) {
        next = target
        (self.showsPriorities, self.showsArrays) = (showsPriorities, showsArrays)
    }

    /// Appends an object. Writes in place if the buffer has capacity for the longest text, otherwise through temporary memory. The text is usually
    /// far shorter, and the buffer may be long-lived.
    static func append(_ object: PackedValue, to bytes: inout [UInt8], showsPriorities: Bool, showsArrays: Bool = false) {
        let most = mostBytes(object.size)
        func write(to start: UnsafeMutableRawPointer) -> Int {
            var writer = PackedJSON(start, showsPriorities: showsPriorities, showsArrays: showsArrays)
            writer.object(object)
            return writer.next - start
        }
        guard bytes.capacity &- bytes.count >= most else {
            return withUnsafeTemporaryAllocation(byteCount: most, alignment: 8) { room in
                guard let start = room.baseAddress else { return }
                bytes.append(contentsOf: UnsafeRawBufferPointer(start: start, count: write(to: start)))
            }
        }
        bytes.append(addingCapacity: most) { span in
            span.withUnsafeMutableBufferPointer { buffer, count in
                if let start = UnsafeMutableRawPointer(buffer.baseAddress) { count = write(to: start) }
            }
        }
    }

    /// The bytes of the longest text of a packed object. A text's byte becomes at most six, a small integer's at most three. Each entry's three
    /// overhead bytes pay for quotes, colon and comma, and for the names around a priority.
    static func mostBytes(_ size: Int) -> Int { 8 &* size &+ 16 }

    // MARK: Values

    private mutating func value(_ value: PackedValue) {
        if let text = value.text { return string(text) }
        if let number = value.integer { return integer(number) }
        switch value.tag {
        case PackedTag.object, PackedTag.prioritizedObject: object(value)
        case PackedTag.no: put("false")
        case PackedTag.yes: put("true")
        case PackedTag.double: double(value.double)
        case PackedTag.prioritizedLeaf:
            let (priority, leaf) = value.prioritized
            guard showsPriorities else { return self.value(leaf) }
            put("{\".value\":")
            self.value(leaf)
            put(",\".priority\":")
            self.value(priority)
            put(UInt8(ascii: "}"))
        default: put("null")
        }
    }

    private mutating func object(_ object: PackedValue) {
        let members = object.members
        let priority = showsPriorities && object.tag == PackedTag.prioritizedObject ? PackedValue(object.start + PackedTag.objectHead) : nil
        if showsArrays, priority == nil, members.isArray { return array(members) }
        put(UInt8(ascii: "{"))
        let count = members.count
        var i = 0
        while i < count {
            if i > 0 { put(UInt8(ascii: ",")) }
            let entry = members.entry(i)
            string(entry.key)
            put(UInt8(ascii: ":"))
            value(entry.value)
            i &+= 1
        }
        if let priority {
            put(",\".priority\":")
            value(priority)
        }
        put(UInt8(ascii: "}"))
    }

    private mutating func array(_ members: PackedMembers) {
        put(UInt8(ascii: "["))
        var index = 0
        for i in 0..<members.count {
            let entry = members.entry(i)
            let own = Int(Key.integer(entry.key) ?? 0)
            while index < own {
                put("null,")
                index &+= 1
            }
            value(entry.value)
            index &+= 1
            if i &+ 1 < members.count { put(UInt8(ascii: ",")) }
        }
        put(UInt8(ascii: "]"))
    }

    // MARK: Text

    @inline(__always)
    private mutating func put(_ byte: UInt8) {
        next.storeBytes(of: byte, as: UInt8.self)
        next += 1
    }

    @inline(__always)
    private mutating func put(_ text: StaticString) {
        next.copyMemory(from: text.utf8Start, byteCount: text.utf8CodeUnitCount)
        next += text.utf8CodeUnitCount
    }

    private mutating func string(_ text: UnsafeBufferPointer<UInt8>) {
        put(UInt8(ascii: "\""))
        let count = text.count
        if let start = UnsafeRawPointer(text.baseAddress), count > 0 {
            if count >= 8 { long(start, count) } else { short(start, count) }
        }
        put(UInt8(ascii: "\""))
    }

    /// Copies eight bytes at a time; the last copy overlaps the one before.
    @inline(__always)
    private mutating func long(_ start: UnsafeRawPointer, _ count: Int) {
        var i = 0
        while true {
            let word = start.loadUnaligned(fromByteOffset: i, as: UInt64.self)
            if JSONText.hasSpecial(word) { return escaped(start, count) }
            next.storeBytes(of: word, toByteOffset: i, as: UInt64.self)
            if i &+ 8 == count { break }
            i = min(i &+ 8, count &- 8)
        }
        next += count
    }

    @inline(__always)
    private mutating func short(_ start: UnsafeRawPointer, _ count: Int) {
        guard count >= 4 else { return escaped(start, count) }
        let first = start.loadUnaligned(as: UInt32.self)
        let last = start.loadUnaligned(fromByteOffset: count &- 4, as: UInt32.self)
        if JSONText.hasSpecial(UInt64(first) | UInt64(last) &<< 32) { return escaped(start, count) }
        next.storeBytes(of: first, as: UInt32.self)
        next.storeBytes(of: last, toByteOffset: count &- 4, as: UInt32.self)
        next += count
    }

    private mutating func escaped(_ start: UnsafeRawPointer, _ count: Int) {
        for i in 0..<count {
            let byte = start.byte(i)
            if byte >= 0x20, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\") {
                put(byte)
                continue
            }
            put(UInt8(ascii: "\\"))
            switch byte {
            case 0x0A: put(UInt8(ascii: "n"))
            case 0x0D: put(UInt8(ascii: "r"))
            case 0x09: put(UInt8(ascii: "t"))
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): put(byte)
            default:
                put("u00")
                for digit in [byte &>> 4, byte & 15] { put(digit < 10 ? UInt8(ascii: "0") &+ digit : UInt8(ascii: "a") &+ digit &- 10) }
            }
        }
    }

    // MARK: Numbers

    private mutating func integer(_ value: Int64) {
        if value < 0 { put(UInt8(ascii: "-")) }
        let magnitude = value.magnitude
        if magnitude < 10 { return put(UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: magnitude)) }
        digits(magnitude, count: Self.digitCount(magnitude))
    }

    /// Writes exactly `count` digits, with leading zeros.
    @inline(__always)
    private mutating func digits(_ number: UInt64, count: Int) {
        var (rest, i) = (number, count)
        while i >= 2 {
            let (quotient, pair) = (rest / 100, Int(rest % 100))
            i &-= 2
            (next + i).copyMemory(from: Self.pairs + 2 &* pair, byteCount: 2)
            rest = quotient
        }
        if i == 1 { next.storeBytes(of: UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: rest), as: UInt8.self) }
        next += count
    }

    @inline(__always)
    private static func digitCount(_ number: UInt64) -> Int {
        var (count, limit) = (1, UInt64(10))
        while number >= limit {
            count &+= 1
            let (product, overflow) = limit.multipliedReportingOverflow(by: 10)
            if overflow { break }
            limit = product
        }
        return count
    }

    /// Like `JSONWriter.double`.
    private mutating func double(_ value: Double) {
        guard let decimal = ShortDecimal(value) else {
            for byte in value.description.utf8 { put(byte) }
            return
        }
        if value < 0 { put(UInt8(ascii: "-")) }
        integer(decimal.whole)
        put(UInt8(ascii: "."))
        digits(UInt64(decimal.fraction), count: 7)
        var zeros = 0
        while zeros < 6, next.load(fromByteOffset: -1 &- zeros, as: UInt8.self) == UInt8(ascii: "0") { zeros &+= 1 }
        next -= zeros
    }

    private static var pairs: UnsafeRawPointer {
        let text: StaticString = """
            0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849\
            5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899
            """
        return UnsafeRawPointer(text.utf8Start)
    }
}

/// A double that is a decimal of at most seven fractional and fifteen total digits. Most doubles are, and then these digits are the shortest
/// that parse back.
struct ShortDecimal {
    let whole: Int64
    /// The fraction in ten-millionths.
    let fraction: Int64

    @inline(__always)
    init?(_ value: Double) {
        let scaled = (value.magnitude * 1e7).rounded()
        guard scaled >= 1e4, scaled < 1e15, scaled / 1e7 == value.magnitude else { return nil }
        let digits = Int64(scaled)
        (whole, fraction) = (digits / 10_000_000, digits % 10_000_000)
    }
}

extension PackedMembers {
    /// Like `ChildMap.isArray`.
    @inline(__always)
    var isArray: Bool {
        let count = count
        guard let highest = Key.integer(entry(count - 1).key), Int(highest) < 2 * count else { return false }
        return all { Key.isIndex($0.key) }
    }
}
