import JSONTree

/// Substring search over UTF-8, linear in both texts: clients write the values, which may be 10 MB long.
enum StringSearch {
    static func test(_ test: StringTest, _ text: TextCursor, _ part: TextCursor) -> Bool {
        text.withBytes { text in
            part.withBytes { part in
                guard part.count <= text.count else { return false }
                switch test {
                case .contains: return first(of: part, in: text, from: 0, table: prefixTable(part)) != nil
                case .beginsWith: return text.prefix(part.count).elementsEqual(part)
                case .endsWith: return text.suffix(part.count).elementsEqual(part)
                }
            }
        }
    }

    /// Replaces every occurrence, left to right; nil if the result is longer than `maxBytes`.
    ///
    /// An empty `old` matches between all characters, before the first and after the last.
    static func replace(in text: TextCursor, _ old: TextCursor, by new: TextCursor, maxBytes: Int) -> String? {
        let new = new.withBytes { Array($0) }
        var out: [UInt8] = []
        out.reserveCapacity(min(text.utf8Count, maxBytes) + new.count)
        let fits = text.withBytes { text in
            old.withBytes { old in
                if old.isEmpty {
                    for byte in text {
                        if byte & 0xC0 != 0x80 { out.append(contentsOf: new) }
                        out.append(byte)
                        if out.count > maxBytes { return false }
                    }
                    out.append(contentsOf: new)
                    return out.count <= maxBytes
                }
                if old.count == 1 { return replace(text, old[0], new, &out, maxBytes) }
                let table = prefixTable(old)
                var start = 0
                while let found = first(of: old, in: text, from: start, table: table) {
                    out.append(contentsOf: UnsafeBufferPointer(rebasing: text[start..<found]))
                    out.append(contentsOf: new)
                    start = found + old.count
                    if out.count > maxBytes { return false }
                }
                out.append(contentsOf: UnsafeBufferPointer(rebasing: text[start...]))
                return out.count <= maxBytes
            }
        }
        return fits ? String(decoding: out, as: UTF8.self) : nil
    }

    /// Replaces single bytes: calling a search for each would cost more.
    private static func replace(
        _ text: UnsafeBufferPointer<UInt8>, _ old: UInt8, _ new: [UInt8], _ out: inout [UInt8], _ maxBytes: Int
    ) -> Bool {
        for byte in text {
            if byte != old {
                out.append(byte)
            } else if new.count == 1 {
                out.append(new[0])
            } else {
                out.append(contentsOf: new)
            }
            if out.count > maxBytes { return false }
        }
        return true
    }

    /// The Knuth–Morris–Pratt table: for each length of a matched prefix, the longest shorter prefix that is its suffix. Empty for short
    /// parts, where starting over costs less.
    private static func prefixTable(_ part: UnsafeBufferPointer<UInt8>) -> [Int] {
        guard part.count > 16 else { return [] }
        var table = [Int](repeating: 0, count: part.count + 1)
        var k = 0
        for i in 1..<part.count {
            while k > 0, part[i] != part[k] { k = table[k] }
            if part[i] == part[k] { k += 1 }
            table[i + 1] = k
        }
        return table
    }

    private static func first(
        of part: UnsafeBufferPointer<UInt8>, in text: UnsafeBufferPointer<UInt8>, from start: Int, table: [Int]
    ) -> Int? {
        if part.isEmpty { return start }
        if table.isEmpty {
            var i = start
            while i + part.count <= text.count {
                var k = 0
                while k < part.count, text[i + k] == part[k] { k += 1 }
                if k == part.count { return i }
                i += 1
            }
            return nil
        }
        var k = 0
        for i in start..<text.count {
            while k > 0, text[i] != part[k] { k = table[k] }
            if text[i] == part[k] { k += 1 }
            if k == part.count { return i + 1 - k }
        }
        return nil
    }
}
