import Cryptography
import Glibc
import Synchronization

extension Node {
    /// The contract's simple hash (§4.5): base64 of SHA-1 over a canonical text; empty for a missing node. Large objects cache their hash, and
    /// pages their contribution, so unchanged parts are hashed once. O(nodes not hashed yet)
    public var hash: String { hash(.contract) }

    /// Whether the node has at most `limit` nodes, including itself. O(limit)
    public func hasNodes(atMost limit: Int) -> Bool {
        var room = limit
        return hasNodes(within: &room)
    }

    /// Counts the nodes of several values together.
    /// - Parameter room: the number of nodes left; negative once exceeded.
    public func hasNodes(within room: inout Int) -> Bool { withUnsafePointer(to: self) { NodeCursor($0).hasNodes(within: &room) } }

    /// The hash in one of the variants; only the contract's variant is cached.
    func hash(_ manner: HashVariant) -> String { withUnsafePointer(to: self) { NodeCursor($0).hash(manner) } }
}

extension NodeCursor {
    fileprivate func hasNodes(within room: inout Int) -> Bool {
        room -= 1
        guard room >= 0, hasChildren else { return room >= 0 }
        guard childCount <= room else {
            room = -1
            return false
        }
        return allChildren { _, child in child.hasNodes(within: &room) }
    }

    fileprivate func hash(_ manner: HashVariant) -> String {
        if form == .object {
            return Unmanaged<ObjectNode>.fromOpaque(address)._withUnsafeGuaranteedRef { object in
                guard manner == .contract else { return sha1Base64(object.hashedText(manner)) }
                if let known = object.hashText { return known }
                let made = sha1Base64(object.hashedText(manner))
                object.keep(hashText: made)
                return made
            }
        }
        var text = [UInt8]()
        if hasChildren {
            text.appendPriority(priority, manner)
            text.appendChildren(of: self, manner)
        } else {
            if case .null = kind { return "" }
            text.appendPriority(priority, manner)
            text.appendPrimitive(leaf, manner)
        }
        return sha1Base64(text)
    }

    /// Whether the node itself has a priority.
    var isPrioritized: Bool {
        switch form {
        case .packed:
            let tag = PackedValue(address).tag
            return tag == PackedTag.prioritizedLeaf || tag == PackedTag.prioritizedObject
        case .object: return priority.exists
        case .prioritized: return true
        case .longText: return false
        case .leaf: return priority.exists
        }
    }
}

extension ChildPage {
    /// Calls `body` for each packed page in order until it returns false.
    fileprivate func allLeaves(_ body: (PackedPage) -> Bool) -> Bool {
        for leaf in leaves where !body(leaf) { return false }
        for page in pages where !page.allLeaves(body) { return false }
        return true
    }
}

extension PackedPage {
    /// The children's contribution to their object's hash, cached once computed; empty if a child has a priority.
    fileprivate var contribution: String {
        if let hashText { return hashText }
        var text = [UInt8]()
        let isPlain = all { key, child in
            if child.isPrioritized { return false }
            text.appendChild(key, child, .contract)
            return true
        }
        let made = isPlain ? String(decoding: text, as: UTF8.self) : ""
        keep(hashText: made)
        return made
    }
}

/// The variants of the hash.
enum HashVariant {
    case contract
    /// Takes the exponent of a double from a rounded logarithm, so that 63.99999999999999 counts as 64.
    case javaScript
    /// Keeps the key order when all children have a priority.
    case apple
}

extension ObjectNode {
    /// The text that is hashed for the object.
    fileprivate func hashedText(_ manner: HashVariant) -> [UInt8] {
        var text = [UInt8]()
        text.appendPriority(priority, manner)
        if manner == .contract {
            let start = text.count
            func add(_ leaf: PackedPage) -> Bool {
                let contribution = leaf.contribution
                text.append(contentsOf: contribution.utf8)
                return !contribution.isEmpty
            }
            if let root = children.root {
                if root.allLeaves(add) { return text }
            } else if let packed = children.packed, add(packed.page) {
                return text
            }
            text.removeSubrange(start...)
        }
        text.appendChildren(of: NodeCursor(self), manner)
        return text
    }
}

private func sha1Base64(_ text: [UInt8]) -> String {
    withUnsafeTemporaryAllocation(byteCount: HashFunction.sha1.byteCount, alignment: 16) { hash in
        text.withUnsafeBytes { HashFunction.sha1.hash($0, into: hash) }
        return Base64.encode(UnsafeRawBufferPointer(hash))
    }
}

extension [UInt8] {
    fileprivate mutating func appendPriority(_ priority: Node, _ manner: HashVariant) {
        guard priority.exists else { return }
        append(contentsOf: "priority:".utf8)
        appendPrimitive(priority, manner)
        append(UInt8(ascii: ":"))
    }

    fileprivate mutating func appendPrimitive(_ leaf: Node, _ manner: HashVariant) {
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

    private mutating func appendNumber(_ value: Double, _ manner: HashVariant) {
        let bits = manner == .javaScript ? Self.bitsByLogarithm(value) : value.bitPattern
        append(contentsOf: "number:".utf8)
        let digits = Array<UInt8>("0123456789abcdef".utf8)
        for shift in stride(from: 60, through: 0, by: -4) { append(digits[Int(bits >> UInt64(shift) & 15)]) }
    }

    /// The bits of a double, computed like the JavaScript SDK does.
    static func bitsByLogarithm(_ value: Double) -> UInt64 {
        let size = value.magnitude
        guard size >= .leastNormalMagnitude, size.isFinite else { return value.bitPattern }
        let exponent = Swift.min(floor(log(size) / M_LN2), 1023)
        let fraction = floor(size * pow(2, 52 - exponent) - pow(2, 52) + 0.5)
        guard fraction.magnitude <= pow(2, 52) else { return value.bitPattern }
        let low = UInt64(bitPattern: Int64(fraction)) & (1 << 52 - 1)
        return (value < 0 ? 1 << 63 : 0) | UInt64(Int64(exponent) + 1023) << 52 | low
    }

    fileprivate mutating func appendChild(_ key: TextCursor, _ child: NodeCursor, _ manner: HashVariant) {
        append(UInt8(ascii: ":"))
        key.withBytes { append(contentsOf: $0) }
        append(UInt8(ascii: ":"))
        append(contentsOf: child.hash(manner).utf8)
    }

    /// Appends the children in hash order: by priority if any has one, otherwise by key.
    fileprivate mutating func appendChildren(of node: NodeCursor, _ manner: HashVariant) {
        var (prioritised, all) = (false, true)
        _ = node.allChildren { _, child in
            if child.isPrioritized { prioritised = true } else { all = false }
            return !prioritised || manner == .apple
        }
        guard prioritised, !(all && manner == .apple) else {
            _ = node.allChildren { key, child in
                appendChild(key, child, manner)
                return true
            }
            return
        }
        var ordered: [(key: TextCursor, node: NodeCursor, priority: Node)] = []
        _ = node.allChildren { key, child in
            ordered.append((key, child, child.priority))
            return true
        }
        ordered.sort { a, b in
            let order = a.priority.valueOrder(b.priority)
            return order != 0 ? order < 0 : a.key.withBytes { x in b.key.withBytes { Key.order(x, $0) } } < 0
        }
        for child in ordered { appendChild(child.key, child.node, manner) }
    }
}
