public import JSONTree

/// The server's control messages, as JSON to be framed by `RealtimeFraming`, and its responses.
public enum RealtimeReply {
    // MARK: Control (contract §1.3, §1.4)

    /// The first message of a session. `host` must be reachable for this client: repeat its Host field.
    /// - Parameters:
    ///   - nowMs: ms since the epoch.
    ///   - session: not empty, unique.
    public static func hello(nowMs: Int64, host: String, session: String) -> [UInt8] {
        var writer = JSONWriter()
        writer.raw("{\"t\":\"c\",\"d\":{\"t\":\"h\",\"d\":{\"ts\":")
        writer.int(nowMs)
        writer.raw(",\"v\":\"5\",\"h\":")
        writer.string(host)
        writer.raw(",\"s\":")
        writer.string(session)
        writer.raw("}}}")
        return writer.bytes
    }

    /// The response to `RealtimeControl.ping`.
    public static let pong = Array("{\"t\":\"c\",\"d\":{\"t\":\"o\",\"d\":null}}".utf8)

    /// `a`: the first message on a WebSocket that joins a long-polling session, exactly once (contract §1.8).
    public static let switchAck = Array("{\"t\":\"c\",\"d\":{\"t\":\"a\",\"d\":{}}}".utf8)

    /// `n`: the last message by long polling, before the session continues on its WebSocket (contract §1.8).
    public static let endTransmission = Array("{\"t\":\"c\",\"d\":{\"t\":\"n\",\"d\":{}}}".utf8)

    /// Redirects the client to another host; sent before hello, it reconnects there immediately.
    public static func reset(host: String) -> [UInt8] {
        var writer = JSONWriter()
        writer.raw("{\"t\":\"c\",\"d\":{\"t\":\"r\",\"d\":")
        writer.string(host)
        writer.raw("}}")
        return writer.bytes
    }

    // MARK: Responses (contract §2.2, §2.4)

    /// ok with `""`: what most actions expect.
    public static func ok(_ number: Int64) -> FramedText {
        // Written in two pieces, as it answers every write.
        FramedText { writer in
            writer.raw("{\"t\":\"d\",\"d\":{\"r\":")
            writer.int(number)
            writer.raw(",\"b\":{\"s\":\"ok\",\"d\":\"\"}}}")
        }
    }

    /// ok with `{}`, or with `{"w":["no_index"]}` when the listen's index is missing (contract §3.4).
    public static func okListen(_ number: Int64, lacksIndex: Bool = false) -> FramedText {
        response(number, .ok) { lacksIndex ? $0.raw("{\"w\":[\"no_index\"]}") : $0.raw("{}") }
    }

    /// ok with a value in export form: the response to a get.
    public static func ok(_ number: Int64, value: Node) -> FramedText {
        response(number, .ok) { $0.node(value) }
    }

    /// ok with a value, encoded directly from its storage.
    public static func ok(_ number: Int64, value: NodeCursor) -> FramedText {
        response(number, .ok) { $0.node(value) }
    }

    /// ok to `auth` and `gauth`. `auth` is null for admins and for clients that are not signed in.
    /// - Parameter expires: seconds since the epoch.
    public static func okAuth(_ number: Int64, auth: Node, expires: Int64? = nil) -> FramedText {
        response(number, .ok) { writer in
            writer.raw("{\"auth\":")
            writer.node(auth)
            writer.raw(",\"expires\":")
            if let expires { writer.int(expires) } else { writer.raw("null") }
            writer.raw("}")
        }
    }

    public static func refused(_ number: Int64, _ refusal: RealtimeRefusal) -> FramedText {
        response(number, refusal.status) { $0.string(refusal.text) }
    }

    private static func response(
        _ number: Int64, _ status: RealtimeStatus, _ data: (inout JSONWriter) -> Void
    ) -> FramedText {
        FramedText { writer in
            writer.raw("{\"t\":\"d\",\"d\":{\"r\":")
            writer.int(number)
            if status == .ok {
                writer.raw(",\"b\":{\"s\":\"ok\",\"d\":")
            } else {
                writer.raw(",\"b\":{\"s\":\"")
                writer.raw(status.rawValue.utf8)
                writer.raw("\",\"d\":")
            }
            data(&writer)
            writer.raw("}}}")
        }
    }
}
