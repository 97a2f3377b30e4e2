/// Compares a place with a hash that a client sent (contract §4.5), within a work limit.
extension Node {
    /// Whether a client's hash matches this value. Some SDKs deviate from the contract's hash (§4.5), and a transaction on an affected value
    /// would never end. Their deviations are accepted in values of up to 10,000 nodes.
    public func hasHash(_ text: String) -> Bool {
        if text == hash { return true }
        guard !text.isEmpty, hasNodes(atMost: Self.toleratedNodes) else { return false }
        return hasDeviatingHash(text)
    }

    /// Like `hasHash(_:)`; nil if one walk over the value would exceed `limit`. O(limit)
    /// - Parameters:
    ///   - limit: units of work: one for each node not hashed yet, and one for each 64 bytes of its text.
    ///   - work: incremented by the work done, in the same units.
    public func hasHash(_ text: String, within limit: Int, work: inout Int) -> Bool? {
        if isNull || text.isEmpty { return isNull && text.isEmpty }
        var room = limit
        guard isHashed(&room) else { return nil }
        work += limit - room
        if text == hash { return true }
        if childCount >= Self.toleratedNodes { return false }
        room = limit
        let isSmall = withUnsafePointer(to: self) { NodeCursor($0).takesHashing(from: &room) }
        guard isSmall else { return nil }
        return hasDeviatingHash(text, work: limit - room, &work)
    }

    /// Whether computing `hash` takes at most `limit` units of work, given the cached parts. O(limit)
    public func isHashed(within limit: Int) -> Bool {
        var room = limit
        return isHashed(&room)
    }

    private static let toleratedNodes = 10_000
    /// The number of nodes checked for a deviation in the time of hashing one.
    private static let examinedInUnit = 8

    private func isHashed(_ room: inout Int) -> Bool { withUnsafePointer(to: self) { NodeCursor($0).isHashed(&room) } }

    private func hasDeviatingHash(_ text: String) -> Bool {
        var work = 0
        return hasDeviatingHash(text, work: 0, &work)
    }

    /// - Parameter once: the work of one walk.
    private func hasDeviatingHash(_ text: String, work once: Int, _ work: inout Int) -> Bool {
        work += once / Self.examinedInUnit
        guard withUnsafePointer(to: self, { NodeCursor($0).mayDeviate }) else { return false }
        work += 2 * once
        return text == hash(.javaScript) || text == hash(.apple)
    }
}

extension NodeCursor {
    /// The bytes of text hashed in the time of one node.
    private static let bytesOfUnit = 64

    /// Units for the node's own texts: a leaf's and the priority's.
    private var textWork: Int {
        var bytes = 0
        if isPrioritized, case .string(let text) = priority { bytes += text.string.utf8.count }
        switch kind {
        case .text(let text): bytes += text.utf8Count
        case .prioritized: if case .string(let text) = leaf { bytes += text.string.utf8.count }
        default: break
        }
        return bytes / Self.bytesOfUnit
    }

    /// Units for a key's text.
    fileprivate static func work(_ key: TextCursor) -> Int { key.utf8Count / bytesOfUnit }

    /// Subtracts the cost of hashing the whole node. False if `room` is exceeded: O(room).
    fileprivate func takesHashing(from room: inout Int) -> Bool {
        room -= 1 + textWork
        guard room >= 0, hasChildren else { return room >= 0 }
        guard childCount <= room else {
            room = -1
            return false
        }
        return allChildren { key, child in
            room -= Self.work(key)
            return child.takesHashing(from: &room)
        }
    }

    /// Subtracts the cost of hashing the parts without a cached hash, except the node itself.
    fileprivate func isHashed(_ room: inout Int) -> Bool {
        switch form {
        case .object:
            room -= textWork
            return Unmanaged<ObjectNode>.fromOpaque(address)._withUnsafeGuaranteedRef { $0.isHashed(&room) }
        case .packed where hasChildren:
            room += 1
            return takesHashing(from: &room)
        default:
            room -= textWork
            return room >= 0
        }
    }

    /// Whether a variant of the hash may differ from the contract's: by a priority, or by a number whose bits a variant computes differently.
    fileprivate var mayDeviate: Bool {
        if isPrioritized { return true }
        switch kind {
        case .int(let value): return Self.mayDeviate(Double(value))
        case .double(let value): return Self.mayDeviate(value)
        case .object: return !allChildren { _, child in !child.mayDeviate }
        default: return false
        }
    }

    private static func mayDeviate(_ number: Double) -> Bool { [UInt8].bitsByLogarithm(number) != number.bitPattern }
}

extension ObjectNode {
    fileprivate func isHashed(_ room: inout Int) -> Bool {
        if isHashed { return true }
        // The object's text is assembled again, even from pages with cached contributions.
        room -= children.count
        guard room >= 0 else { return false }
        guard let root = children.root else { return children.packed?.page.isHashed(&room) ?? true }
        return root.isHashed(&room)
    }
}

extension ChildPage {
    fileprivate func isHashed(_ room: inout Int) -> Bool {
        for leaf in leaves where !leaf.isHashed(&room) { return false }
        for page in pages where !page.isHashed(&room) { return false }
        return true
    }
}

extension PackedPage {
    /// Subtracts the cost of the page's contribution; its children are already counted.
    fileprivate func isHashed(_ room: inout Int) -> Bool {
        // An empty text cannot be reused: a child has a priority, so all children are hashed again, in another order.
        if let hashText { return !hashText.isEmpty }
        return all { key, child in
            room -= NodeCursor.work(key)
            return child.isHashed(&room)
        }
    }
}
