import JSONTree

extension PendingWrites {
    /// Approximate memory of the pending writes, in bytes. O(their size)
    var heldBytes: Int { writes.reduce(0) { $0 + $1.heldBytes(atMost: .max) } }
}

extension TreeWrite {
    /// Approximate memory of a pending write, in bytes.
    /// - Parameter limit: counting stops above it.
    func heldBytes(atMost limit: Int) -> Int {
        var bytes = path.keys.reduce(64) { $0 + $1.text.utf8Count }
        bytes += value.deferred.reduce(0) { $1.path.keys.reduce($0 + 64) { $0 + $1.text.utf8Count } }
        value.node.countBytes(&bytes, atMost: limit)
        return bytes
    }
}

extension Node {
    fileprivate func countBytes(_ bytes: inout Int, atMost limit: Int) {
        switch self {
        case .string(let text): bytes += 16 + text.utf8Count
        case .prioritized(let leaf): leaf.leaf.countBytes(&bytes, atMost: limit)
        case .null, .bool, .int, .double: bytes += 8
        default:
            bytes += 64
            for (key, child) in children {
                if bytes > limit { return }
                bytes += 16 + key.text.utf8Count
                child.countBytes(&bytes, atMost: limit)
            }
        }
    }
}

extension Failure {
    static func pendingTooBig(_ limit: Int) -> Failure {
        Failure(.tooBig, "At most \(limit) bytes may wait for the disconnect of one client.")
    }
    static let pendingOfAllTooBig = Failure(.unavailable, "Too much waits for the disconnect of clients. Try again later.")
}
