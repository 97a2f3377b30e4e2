import JSONTree

/// The stored form of the state of forwarded requests, with hub ids as signed numbers:
///
///     ["j",-81,7]    ["m",-81,number,client,base,commit]    ["g",-81]
extension JSONWriter {
    package mutating func entry(_ change: PeerChange) {
        switch change {
        case .join(let hub, let sequence): numbers(.peerJoins, hub, [sequence])
        case .done(let mark, let sequence): numbers(.peerDone, mark.hub, [mark.number, mark.client, mark.base, sequence])
        case .gone(let hub): numbers(.peerGone, hub, [])
        }
    }

    private mutating func numbers(_ kind: EntryKind, _ hub: UInt64, _ numbers: [UInt64]) {
        begin(kind)
        int(Int64(bitPattern: hub))
        for number in numbers {
            raw(",")
            int(Int64(bitPattern: number))
        }
        raw("]")
    }
}

extension JSONReader {
    /// Reads the rest of an entry after its kind, without the closing bracket.
    mutating func peerChange(_ kind: EntryKind) throws(JSONError) -> PeerChange {
        let hub = try unsigned()
        switch kind {
        case .peerJoins: return .join(hub: hub, at: try nextUnsigned())
        case .peerDone:
            let (number, client, base) = (try nextUnsigned(), try nextUnsigned(), try nextUnsigned())
            return .done(PeerMark(hub: hub, number: number, client: client, base: base), at: try nextUnsigned())
        default: return .gone(hub: hub)
        }
    }

    private mutating func unsigned() throws(JSONError) -> UInt64 { UInt64(bitPattern: try int()) }

    private mutating func nextUnsigned() throws(JSONError) -> UInt64 {
        guard try nextElement() else { throw .malformed(offset: offset) }
        return try unsigned()
    }
}
