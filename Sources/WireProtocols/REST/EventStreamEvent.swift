public import JSONTree

/// Events of a stream (contract §7.6), each as one chunk of a chunked response, encoded once for all streams of the same place.
///
/// ```
/// 3F\r\n                                       the chunk's size
/// event: put\n
/// data: {"path":"/a","data":1}\n
/// \n\r\n
/// ```
public enum EventStreamEvent {
    /// The new value of the place at `path`, below the streamed place.
    public static func put(_ path: ArraySlice<Key>, _ value: Node, _ form: NodeEncoder.Form) -> [UInt8] {
        var writer = begin("event: put\ndata: {\"path\":", path)
        writer.rest(value, form)
        return end(writer)
    }

    /// The new values of these places below `path`; null for removed ones.
    public static func patch(_ path: ArraySlice<Key>, _ entries: [(path: Path, value: Node)], _ form: NodeEncoder.Form) -> [UInt8] {
        var writer = begin("event: patch\ndata: {\"path\":", path)
        writer.raw("{")
        for (i, entry) in entries.enumerated() {
            if i > 0 { writer.raw(",") }
            writer.path(entry.path.keys)
            writer.raw(":")
            writer.rest(entry.value, form)
        }
        writer.raw("}")
        return end(writer)
    }

    public static let keepAlive = HTTPResponseEncoder.chunk(Array("event: keep-alive\ndata: null\n\n".utf8))

    /// The rules no longer allow reading; the stream ends after this. The SDKs parse the data as JSON and ignore `null`.
    public static let cancel = HTTPResponseEncoder.chunk(Array("event: cancel\ndata: null\n\n".utf8))

    /// The credential has expired; the stream ends after this. Clients compare the text, which is not JSON.
    public static let authRevoked = HTTPResponseEncoder.chunk(Array("event: auth_revoked\ndata: credential is no longer valid\n\n".utf8))

    /// The bytes without chunked coding, for HTTP/1.0 peers.
    public static func unwrapped(_ chunk: [UInt8]) -> [UInt8] {
        var out: [UInt8] = []
        var at = 0
        while let line = chunk[at...].firstIndex(of: 0x0D), let size = Int(String(decoding: chunk[at..<line], as: UTF8.self), radix: 16) {
            let start = line + 2
            guard size > 0, start + size <= chunk.count else { break }
            out += chunk[start..<start + size]
            at = min(chunk.count, start + size + 2)
        }
        return out
    }

    private static func begin(_ text: StaticString, _ path: ArraySlice<Key>) -> JSONWriter {
        var writer = JSONWriter()
        writer.raw(text)
        writer.raw("\"/")
        var names = JSONWriter()
        names.path(path)
        writer.raw(names.bytes.dropFirst())
        writer.raw(",\"data\":")
        return writer
    }

    private static func end(_ writer: JSONWriter) -> [UInt8] {
        var writer = writer
        writer.raw("}\n\n")
        return HTTPResponseEncoder.chunk(writer.bytes)
    }
}
