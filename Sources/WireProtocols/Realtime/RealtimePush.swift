public import JSONTree

/// A server push (contract §2.3), encoded once for all its receivers.
///
/// ```
/// {"t":"d","d":{"a":"d","b":{        "p":"a/b","d":…}}}       default listens
/// {"t":"d","d":{"a":"d","b":{"t":7,  "p":"a/b","d":…}}}       listen with tag 7
/// └────── prefix, per tag ─────────┘└─ rest, written once ─┘
/// ```
public struct RealtimePush: Sendable {
    private enum Kind: Sendable {
        case data, merge

        var action: StaticString {
            switch self {
            case .data: "{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{"
            case .merge: "{\"t\":\"d\",\"d\":{\"a\":\"m\",\"b\":{"
            }
        }
    }

    private let kind: Kind
    /// The message for default listens.
    private let message: FramedText
    private let restCount: Int
    /// The end of the message, equal for all receivers.
    var rest: ArraySlice<UInt8> { message.text.suffix(restCount) }

    private init(_ kind: Kind, _ write: (inout JSONWriter) -> Void) {
        self.kind = kind
        message = FramedText { writer in
            writer.raw(kind.action)
            write(&writer)
        }
        restCount = message.count - kind.action.utf8CodeUnitCount
    }

    /// `d`: the new value at `path`, in export form. Server values must be resolved.
    public static func data(path: Path, value: Node) -> RealtimePush {
        RealtimePush(.data) { writer in
            writer.raw("\"p\":")
            writer.path(path.keys)
            writer.raw(",\"d\":")
            writer.node(value)
            writer.raw("}}}")
        }
    }

    /// `m`: the new values of these places, relative to `path`; null for removed ones.
    public static func merge(path: Path, _ entries: [(path: Path, value: Node)]) -> RealtimePush {
        RealtimePush(.merge) { writer in
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
        }
    }

    /// The whole push in frames. Those of default listens are equal for all clients: share them. Those of tagged listens copy `rest` after a
    /// different prefix for each tag (measured by `vigla-bench engine`). Sharing `rest` as a second segment would add one entry to every `writev`
    /// of every connection.
    public func frames(tag: Int64?) -> [UInt8] {
        guard let tag else { return message.realtimeFrames }
        return FramedText(reservingCapacity: 64 + restCount) { writer in
            writer.raw(kind.action)
            writer.raw("\"t\":")
            writer.int(tag)
            writer.raw(",")
            writer.raw(rest)
        }.realtimeFrames
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

    /// The control message `s`: the client ends the connection and does not connect again (contract §2.3).
    public static func shutdown(_ reason: String) -> [UInt8] {
        var writer = JSONWriter()
        writer.raw("{\"t\":\"c\",\"d\":{\"t\":\"s\",\"d\":")
        writer.string(reason)
        writer.raw("}}")
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
