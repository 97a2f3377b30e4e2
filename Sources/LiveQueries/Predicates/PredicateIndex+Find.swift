import JSONTree

extension PredicateIndex.PathTable {
    /// - Parameters: whether the child exists before and after the change, and its values at the path.
    func concerned(
        _ hasOld: Bool, _ old: NodeCursor?, _ hasNew: Bool, _ new: NodeCursor?, _ body: (Int) -> Void
    ) {
        if !values.isEmpty {
            let (before, after) = (Self.hash(old), Self.hash(new))
            if hasOld, let slots = values[before] { for slot in slots { body(slot) } }
            if hasNew, !hasOld || after != before, let slots = values[after] { for slot in slots { body(slot) } }
        }
        if ranges.count > 0 {
            if hasOld { ranges.find(old, body) }
            if hasNew, !hasOld || !Self.isSame(old, new) { ranges.find(new, body) }
        }
        if !members.isEmpty {
            if let old { findMembers(old, body) }
            if let new { findMembers(new, body) }
        }
        if !prefixes.isEmpty {
            if let old { findPrefixes(old, body) }
            if let new, old.map({ Self.hash($0) }) != Self.hash(new) { findPrefixes(new, body) }
        }
    }

    static func hash(_ value: NodeCursor?) -> Int {
        var hasher = Hasher()
        if let value { value.hashValue(into: &hasher) } else { hasher.combine(0 as UInt8) }
        return hasher.finalize()
    }

    /// True if both values certainly lie in the same ranges.
    private static func isSame(_ a: NodeCursor?, _ b: NodeCursor?) -> Bool {
        guard let a, let b else { return a == nil && b == nil }
        switch (a.kind, b.kind) {
        case (.int(let x), .int(let y)): return x == y
        case (.double(let x), .double(let y)): return x == y
        case (.text(let x), .text(let y)): return x.isEqual(to: y)
        case (.object, .object): return true
        default: return false
        }
    }

    private func findMembers(_ value: NodeCursor, _ body: (Int) -> Void) {
        if members.count <= value.childCount {
            for entry in members.values {
                let isThere = withUnsafePointer(to: entry.key) { value.child(TextCursor($0)) != nil }
                if isThere { for slot in entry.slots { body(slot) } }
            }
            return
        }
        _ = value.allChildren { name, _ in
            if let slots = members[name.withBytes { PredicateIndex.hash($0) }]?.slots { for slot in slots { body(slot) } }
            return true
        }
    }

    private func findPrefixes(_ value: NodeCursor, _ body: (Int) -> Void) {
        let leaf: Node = if case .prioritized = value.kind { value.leaf } else { .null }
        withUnsafePointer(to: leaf) { leaf in
            let value = if case .prioritized = value.kind { NodeCursor(leaf) } else { value }
            guard case .text(let text) = value.kind else { return }
            text.withBytes { bytes in
                for length in lengths.keys where length <= bytes.count {
                    let hash = PredicateIndex.hash(UnsafeBufferPointer(rebasing: bytes[..<length]))
                    if let slots = prefixes[hash] { for slot in slots { body(slot) } }
                }
            }
        }
    }
}
