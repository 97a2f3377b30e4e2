import Crypto
import Synchronization

extension Node {
    /// The contract's simple hash (§4.5): base64 of SHA-1 over a canonical text; empty for a missing node. Objects keep
    /// theirs, so an unchanged subtree is hashed once. O(nodes not hashed yet)
    public var hash: String {
        switch self {
        case .null: return ""
        case .object(let object):
            if let known = object.cachedHash.load() { return known.text }
            return object.cachedHash.storeIfNil(HashText(object.computeHash(priority: object.priority))).text
        default:
            var text = [UInt8]()
            text.appendPriority(priority)
            text.appendPrimitive(leaf)
            return sha1Base64(text)
        }
    }
}

extension ObjectNode {
    fileprivate func computeHash(priority: Node) -> String {
        var text = [UInt8]()
        text.appendPriority(priority)
        var prioritised = false
        for (_, node) in children where node.priority.exists {
            prioritised = true
            break
        }
        if prioritised {
            let ordered = children.map { $0 }.sorted { a, b in
                let order = a.node.priority.valueOrder(b.node.priority)
                return order != 0 ? order < 0 : a.key < b.key
            }
            for child in ordered { text.appendChild(child.key, child.node) }
        } else {
            for child in children { text.appendChild(child.key, child.node) }
        }
        return sha1Base64(text)
    }
}

private func sha1Base64(_ text: [UInt8]) -> String { Base64.encode(Insecure.SHA1.hash(data: text)) }

extension [UInt8] {
    fileprivate mutating func appendPriority(_ priority: Node) {
        guard priority.exists else { return }
        append(contentsOf: "priority:".utf8)
        appendPrimitive(priority)
        append(UInt8(ascii: ":"))
    }

    fileprivate mutating func appendPrimitive(_ leaf: Node) {
        switch leaf {
        case .bool(let value): append(contentsOf: value ? "boolean:true".utf8 : "boolean:false".utf8)
        case .int(let value): appendNumber(Double(value))
        case .double(let value): appendNumber(value)
        case .string(let text):
            append(contentsOf: "string:".utf8)
            append(contentsOf: text.string.utf8)
        default: break
        }
    }

    private mutating func appendNumber(_ value: Double) {
        append(contentsOf: "number:".utf8)
        let digits = Array<UInt8>("0123456789abcdef".utf8)
        for shift in stride(from: 60, through: 0, by: -4) { append(digits[Int(value.bitPattern >> UInt64(shift) & 15)]) }
    }

    fileprivate mutating func appendChild(_ key: Key, _ node: Node) {
        append(UInt8(ascii: ":"))
        append(contentsOf: key.string.utf8)
        append(UInt8(ascii: ":"))
        append(contentsOf: node.hash.utf8)
    }
}

/// Standard base64 with padding (RFC 4648 §4).
enum Base64 {
    static func encode(_ bytes: some Sequence<UInt8>) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        var out = [UInt8]()
        var (bits, held) = (UInt32(0), 0)
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            held += 8
            while held >= 6 {
                held -= 6
                out.append(alphabet[Int(bits >> UInt32(held) & 63)])
            }
        }
        if held > 0 { out.append(alphabet[Int(bits << UInt32(6 - held) & 63)]) }
        while out.count % 4 != 0 { out.append(UInt8(ascii: "=")) }
        return String(decoding: out, as: UTF8.self)
    }
}
