import HubEngine
import JSONTree
import WireProtocols

/// The body of a large answer, given piece by piece as the peer takes it. That of a node never exists as a whole, and what it
/// shows is the tree as it was, whatever is written meanwhile.
struct OutgoingBody: Sendable {
    private enum Source: Sendable {
        case node(NodeEncoder)
        case bytes(ArraySlice<UInt8>)
    }

    private var source: Source
    private var opening: [UInt8] = []
    private var closing: [UInt8] = []
    /// Framed as chunks; else the head has said the length, or the end of the connection is the body's.
    var isChunked = false
    private(set) var isDone = false
    /// Counts what the body holds, for as long as it is under way.
    var lease: MemoryLease?

    /// Bytes of a piece: few enough that other connections of the loop have their turn.
    static let pieceBytes = 256 << 10

    /// - Parameter callback: the function that a script calls with the value.
    init(_ node: Node, _ form: NodeEncoder.Form, callback: String? = nil) {
        source = .node(NodeEncoder(node, form))
        opening = callback.map { Array("\($0)(".utf8) } ?? []
        closing = Array(((form.isPretty ? "\n" : "") + (callback == nil ? "" : ")")).utf8)
    }

    init(_ bytes: [UInt8]) { source = .bytes(bytes[...]) }

    /// The next piece, unframed, of about so many bytes.
    mutating func next(_ count: Int) -> [UInt8] {
        switch source {
        case .bytes(let rest):
            source = .bytes(rest.dropFirst(count))
            isDone = rest.count <= count
            return Array(rest.prefix(count))
        case .node(var encoder):
            // Nobody else holds the encoder's stack while it moves.
            source = .bytes([])
            var writer = JSONWriter(reservingCapacity: isChunked ? count + 4096 : 512)
            writer.raw(opening)
            opening = []
            encoder.write(to: &writer, atLeast: count)
            isDone = encoder.isDone
            if isDone { writer.raw(closing) }
            source = .node(encoder)
            return writer.bytes
        }
    }

    /// The next piece as it is sent.
    mutating func nextFramed() -> [UInt8] {
        // First the piece: it decides whether it is the last.
        let piece = next(Self.pieceBytes)
        return framed(piece)
    }

    func framed(_ piece: [UInt8]) -> [UInt8] {
        guard isChunked else { return piece }
        return HTTPResponseEncoder.chunk(piece) + (isDone ? HTTPResponseEncoder.lastChunk : [])
    }
}
