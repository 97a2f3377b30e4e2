import HubEngine
import JSONTree
import WireProtocols

/// The body of a large response, encoded piece by piece as the peer reads it. A node's body never exists as a whole. It shows one version
/// of the tree, independent of later writes.
struct ResponseBody: Sendable {
    private enum Source: Sendable {
        case node(NodeEncoder)
        case names(NameEncoder)
        case echo(UpdateEcho)
        case bytes(ArraySlice<UInt8>)
        case script(LongPollScriptEncoder)
    }

    private var source: Source
    private var opening: [UInt8] = []
    private var closing: [UInt8] = []
    /// Uses chunked transfer coding. Otherwise the head has the length, or closing the connection ends the body.
    var isChunked = false
    private(set) var isDone = false
    /// The budget's hold while the body is being sent.
    var hold: BodyHold?

    /// The approximate size in bytes; nil above `limit`. O(nodes)
    func size(upTo limit: Int) -> Int? {
        switch source {
        case .node(let encoder): encoder.size(upTo: limit)
        case .names(let encoder): encoder.size(upTo: limit)
        case .echo(let echo): echo.size(upTo: limit)
        case .bytes(let rest): rest.count <= limit ? rest.count : nil
        // Scripts were charged and bounded when they were queued for a poll.
        case .script: 0
        }
    }

    /// Bytes of a piece: small enough that other connections of the loop take their turn.
    static let pieceBytes = 256 << 10

    /// - Parameter callback: the function that a script calls with the value.
    init(_ node: Node, _ form: NodeEncoder.Form, callback: String? = nil) {
        source = .node(NodeEncoder(node, form))
        opening = callback.map { Array("\($0)(".utf8) } ?? []
        closing = Array(((form.isPretty ? "\n" : "") + (callback == nil ? "" : ")")).utf8)
    }

    /// The names of a node's children.
    init(_ node: Node, namesIn range: NameEncoder.Range, isPretty: Bool, callback: String?) {
        self.init(.null, NodeEncoder.Form(isPretty: isPretty), callback: callback)
        source = .names(NameEncoder(node, range, isPretty: isPretty))
    }

    init(_ echo: UpdateEcho) { source = .echo(echo) }

    init(_ bytes: [UInt8]) { source = .bytes(bytes[...]) }

    init(_ script: LongPollScriptEncoder) { source = .script(script) }

    /// The next piece of about `count` bytes, without transfer coding.
    mutating func next(_ count: Int) -> [UInt8] { next(count, isFramed: false) }

    /// - Parameter isFramed: whether to frame the piece as one or several chunks. Framing happens during encoding, as a copy would cost as
    ///   much again.
    private mutating func next(_ count: Int, isFramed: Bool) -> [UInt8] {
        switch source {
        case .bytes(let rest):
            source = .bytes(rest.dropFirst(count))
            isDone = rest.count <= count
            return framed(Array(rest.prefix(count)), if: isFramed)
        case .node(var encoder):
            return piece(count, isFramed: isFramed) { writer in
                encoder.write(to: &writer, atLeast: count)
                return (.node(encoder), encoder.isDone)
            }
        case .names(var encoder):
            return piece(count, isFramed: isFramed) { writer in
                encoder.write(to: &writer, atLeast: count)
                return (.names(encoder), encoder.isDone)
            }
        case .script(var encoder):
            source = .bytes([])
            var bytes: [UInt8] = []
            bytes.reserveCapacity(count + (32 << 10))
            encoder.write(to: &bytes, atLeast: count)
            isDone = encoder.isDone
            source = .script(encoder)
            return framed(bytes, if: isFramed)
        case .echo(var echo):
            return piece(count, isFramed: isFramed) { writer in
                echo.write(to: &writer, atLeast: count)
                return (.echo(echo), echo.isDone)
            }
        }
    }

    private mutating func piece(
        _ count: Int, isFramed: Bool, _ write: (inout JSONWriter) -> (Source, isDone: Bool)
    ) -> [UInt8] {
        // Drops the other reference to the encoder's stack; otherwise mutating it would copy it.
        source = .bytes([])
        var writer = JSONWriter(reservingCapacity: isChunked ? count + NodeEncoder.slackBytes : 512)
        if isFramed { writer.raw(HTTPResponseEncoder.openChunk) }
        writer.raw(opening)
        opening = []
        (source, isDone) = write(&writer)
        if isDone { writer.raw(closing) }
        if isFramed {
            HTTPResponseEncoder.endChunk(&writer.bytes)
            if isDone { writer.raw(HTTPResponseEncoder.lastChunk) }
        }
        return writer.bytes
    }

    /// The next piece with its transfer coding.
    mutating func nextFramed() -> [UInt8] { next(Self.pieceBytes, isFramed: isChunked) }

    private func framed(_ piece: [UInt8], if isFramed: Bool) -> [UInt8] { isFramed ? framed(piece) : piece }

    func framed(_ piece: [UInt8]) -> [UInt8] {
        guard isChunked else { return piece }
        return HTTPResponseEncoder.chunk(piece) + (isDone ? HTTPResponseEncoder.lastChunk : [])
    }
}
