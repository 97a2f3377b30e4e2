public import JSONTree

/// A push of the server (contract §2.3), encoded once for all its receivers.
///
/// ```
/// {"t":"d","d":{"a":"d","b":{        "p":"a/b","d":…}}}       default listens
/// {"t":"d","d":{"a":"d","b":{"t":7,  "p":"a/b","d":…}}}       listen with tag 7
/// └────── prefix, per tag ─────────┘└─ rest, written once ─┘
/// ```
public struct RealtimePush: Sendable {
    private enum Kind: Sendable {
        case data, merge
    }

    private let kind: Kind
    /// The end of the message, the same for all.
    let rest: [UInt8]

    /// `d`: the value at `path` is now `value`, in export form. Server values must be resolved.
    public static func data(path: Path, value: Node) -> RealtimePush {
        var writer = JSONWriter()
        writer.raw("\"p\":")
        writer.path(path.keys)
        writer.raw(",\"d\":")
        writer.node(value)
        writer.raw("}}}")
        return RealtimePush(kind: .data, rest: writer.bytes)
    }

    /// `m`: these places, relative to `path`, have these values now; null for removed ones.
    public static func merge(path: Path, _ entries: [(path: Path, value: Node)]) -> RealtimePush {
        var writer = JSONWriter()
        writer.raw("\"p\":")
        writer.path(path.keys)
        writer.raw(",\"d\":{")
        var isFirst = true
        for entry in entries {
            if !isFirst { writer.raw(",") }
            isFirst = false
            writer.path(entry.path.keys)
            writer.raw(":")
            writer.node(entry.value)
        }
        writer.raw("}}}}")
        return RealtimePush(kind: .merge, rest: writer.bytes)
    }

    /// The part before `rest` for a listen with this tag, or for a default listen.
    func prefix(tag: Int64?) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 48)
        switch kind {
        case .data: writer.raw("{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{")
        case .merge: writer.raw("{\"t\":\"d\",\"d\":{\"a\":\"m\",\"b\":{")
        }
        if let tag {
            writer.raw("\"t\":")
            writer.int(tag)
            writer.raw(",")
        }
        return writer.bytes
    }

    /// The whole push in frames. Those of default listens are equal for all clients: make them once and share them. Those of tagged ones
    /// copy `rest` behind a different prefix for each tag (measured by `vigla-bench engine`); sharing `rest` as a second segment would cost
    /// every connection one more entry in every `writev`.
    public func frames(tag: Int64?) -> [UInt8] {
        let prefix = prefix(tag: tag)
        let length = prefix.count + rest.count
        // UTF-8 never has fewer bytes than UTF-16 has code units, so a short message is never cut.
        guard length <= RealtimeFraming.segmentUnits else { return RealtimeFraming.frames(for: prefix + rest) }
        var frame: [UInt8] = []
        frame.reserveCapacity(length + 4)
        WebSocketFrame.appendHeader(.text, payloadLength: length, to: &frame)
        frame += prefix
        frame += rest
        return frame
    }

    // MARK: Other pushes

    /// `c`: a listen is cancelled. `query` must be the one the client sent, nil for a default listen.
    public static func cancelled(path: Path, query: TreeQuery?) -> [UInt8] {
        var writer = JSONWriter()
        writer.raw("{\"t\":\"d\",\"d\":{\"a\":\"c\",\"b\":{\"p\":")
        writer.path(path.keys)
        if let query {
            writer.raw(",\"q\":[")
            query.write(to: &writer)
            writer.raw("]")
        }
        writer.raw("}}}")
        return writer.bytes
    }

    /// `ac`: the credential was revoked; the client drops it and closes (contract §8.1).
    public static func authRevoked(_ refusal: RealtimeRefusal) -> [UInt8] {
        var writer = JSONWriter()
        writer.raw("{\"t\":\"d\",\"d\":{\"a\":\"ac\",\"b\":{\"s\":\"")
        writer.raw(refusal.status.rawValue.utf8)
        writer.raw("\",\"d\":")
        writer.string(refusal.text)
        writer.raw("}}}")
        return writer.bytes
    }
}
