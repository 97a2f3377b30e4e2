import Cryptography
import Glibc
import Synchronization

extension Node {
    /// The contract's simple hash (§4.5): base64 of SHA-1 over a canonical text; empty for a missing node. Objects cache
    /// theirs, so an unchanged subtree is hashed once. O(nodes not hashed yet)
    public var hash: String {
        switch self {
        case .null: return ""
        case .object(let object):
            if let known = object.cachedHash.load() { return known.text }
            return object.cachedHash.storeIfNil(HashText(object.computeHash(priority: object.priority))).text
        default:
            var text = [UInt8]()
            text.appendPriority(priority, .contract)
            text.appendPrimitive(leaf, .contract)
            return sha1Base64(text)
        }
    }

    /// Whether a client's hash matches this value. Some SDKs deviate from the contract's hash (§4.5), and a
    /// transaction on such a value would never end. Their deviations are accepted in values of up to 10,000 nodes.
    public func hasHash(_ text: String) -> Bool {
        if text == hash { return true }
        guard !text.isEmpty, hasNodes(atMost: Self.toleratedNodes) else { return false }
        return text == hash(.javaScript) || text == hash(.apple)
    }

    private static let toleratedNodes = 10_000

    /// As `hasHash`, or nil when that would visit more than about `limit` nodes. O(limit)
    public func hasHash(_ text: String, within limit: Int) -> Bool? {
        if isNull || text.isEmpty { return isNull && text.isEmpty }
        guard isHashed(within: limit) else { return nil }
        if text == hash { return true }
        if childCount >= Self.toleratedNodes { return false }
        guard hasNodes(atMost: limit) else { return nil }
        return hasHash(text)
    }

    /// Whether `hash` visits at most `limit` nodes, as the others have cached hashes. O(limit)
    public func isHashed(within limit: Int) -> Bool {
        var room = limit
        return isHashed(&room)
    }

    private func isHashed(_ room: inout Int) -> Bool {
        guard case .object(let object) = self, !object.isHashed else { return true }
        room -= object.children.count
        guard room >= 0 else { return false }
        for (_, child) in object.children where !child.isHashed(&room) { return false }
        return true
    }

    /// Whether the node has at most `limit` nodes, itself included. O(limit)
    public func hasNodes(atMost limit: Int) -> Bool {
        var room = limit
        return hasNodes(within: &room)
    }

    /// The same for several values together.
    /// - Parameter room: nodes left; negative when there were more.
    public func hasNodes(within room: inout Int) -> Bool {
        room -= 1
        guard room >= 0, case .object(let object) = self else { return room >= 0 }
        guard object.children.count <= room else {
            room = -1
            return false
        }
        for (_, child) in object.children where !child.hasNodes(within: &room) { return false }
        return true
    }

    /// The hash in one of the variants, without reading or writing caches.
    fileprivate func hash(_ manner: HashManner) -> String {
        switch self {
        case .null: return ""
        case .object(let object): return object.computeHash(priority: object.priority, manner)
        default:
            var text = [UInt8]()
            text.appendPriority(priority, manner)
            text.appendPrimitive(leaf, manner)
            return sha1Base64(text)
        }
    }
}

/// The variants of the hash.
private enum HashManner {
    case contract
    /// Takes the exponent of a double from a rounded logarithm, so that 63.99999999999999 counts as 64.
    case javaScript
    /// Keeps the key order when all children have a priority.
    case apple
}

extension ObjectNode {
    fileprivate func computeHash(priority: Node, _ manner: HashManner = .contract) -> String {
        var text = [UInt8]()
        text.appendPriority(priority, manner)
        var prioritised = false
        var all = true
        for (_, node) in children {
            if node.priority.exists { prioritised = true } else { all = false }
            if prioritised, manner != .apple { break }
        }
        if prioritised, !(all && manner == .apple) {
            let ordered = children.map { $0 }.sorted { a, b in
                let order = a.node.priority.valueOrder(b.node.priority)
                return order != 0 ? order < 0 : a.key < b.key
            }
            for child in ordered { text.appendChild(child.key, child.node, manner) }
        } else {
            for child in children { text.appendChild(child.key, child.node, manner) }
        }
        return sha1Base64(text)
    }
}

private func sha1Base64(_ text: [UInt8]) -> String {
    withUnsafeTemporaryAllocation(byteCount: HashFunction.sha1.byteCount, alignment: 16) { hash in
        text.withUnsafeBytes { HashFunction.sha1.hash($0, into: hash) }
        return Base64.encode(UnsafeRawBufferPointer(hash))
    }
}

extension [UInt8] {
    fileprivate mutating func appendPriority(_ priority: Node, _ manner: HashManner) {
        guard priority.exists else { return }
        append(contentsOf: "priority:".utf8)
        appendPrimitive(priority, manner)
        append(UInt8(ascii: ":"))
    }

    fileprivate mutating func appendPrimitive(_ leaf: Node, _ manner: HashManner) {
        switch leaf {
        case .bool(let value): append(contentsOf: value ? "boolean:true".utf8 : "boolean:false".utf8)
        case .int(let value): appendNumber(Double(value), manner)
        case .double(let value): appendNumber(value, manner)
        case .string(let text):
            append(contentsOf: "string:".utf8)
            append(contentsOf: text.string.utf8)
        default: break
        }
    }

    private mutating func appendNumber(_ value: Double, _ manner: HashManner) {
        let bits = manner == .javaScript ? Self.bitsByLogarithm(value) : value.bitPattern
        append(contentsOf: "number:".utf8)
        let digits = Array<UInt8>("0123456789abcdef".utf8)
        for shift in stride(from: 60, through: 0, by: -4) { append(digits[Int(bits >> UInt64(shift) & 15)]) }
    }

    /// The bits of a double as the JavaScript SDK computes them.
    private static func bitsByLogarithm(_ value: Double) -> UInt64 {
        let size = value.magnitude
        guard size >= .leastNormalMagnitude, size.isFinite else { return value.bitPattern }
        let exponent = Swift.min(floor(log(size) / M_LN2), 1023)
        let fraction = floor(size * pow(2, 52 - exponent) - pow(2, 52) + 0.5)
        guard fraction.magnitude <= pow(2, 52) else { return value.bitPattern }
        let low = UInt64(bitPattern: Int64(fraction)) & (1 << 52 - 1)
        return (value < 0 ? 1 << 63 : 0) | UInt64(Int64(exponent) + 1023) << 52 | low
    }

    fileprivate mutating func appendChild(_ key: Key, _ node: Node, _ manner: HashManner) {
        append(UInt8(ascii: ":"))
        append(contentsOf: key.string.utf8)
        append(UInt8(ascii: ":"))
        append(contentsOf: (manner == .contract ? node.hash : node.hash(manner)).utf8)
    }
}
