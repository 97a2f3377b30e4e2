import Synchronization

/// The content of a message. A large one stays in the pieces in which it came until somebody needs it in one: putting them
/// together takes long for its size, and is no work for a net loop.
public struct HTTPBody: Sendable {
    /// A piece is never moved while more comes. Default 1 MiB: that is moved, or made, in well below a ms.
    static let pieceBytes = 1 << 20

    private enum Content: Sendable {
        case whole([UInt8])
        case pieces(Pieces)
    }

    private let content: Content
    public let count: Int

    public init(_ bytes: [UInt8] = []) {
        content = .whole(bytes)
        count = bytes.count
    }

    init(pieces: [[UInt8]], count: Int) {
        self.count = count
        content = .pieces(Pieces(pieces, count: count))
    }

    /// All of it. The first time O(n) where it came in pieces, which are let go of one by one.
    public var bytes: [UInt8] {
        switch content {
        case .whole(let bytes): bytes
        case .pieces(let pieces): pieces.joined()
        }
    }

    /// Shared by the copies of a request: it is put together once for all of them.
    private final class Pieces: Sendable {
        private enum State {
            /// The last one first.
            case apart([[UInt8]])
            case joined([UInt8])
        }

        private let state: Mutex<State>
        private let count: Int

        init(_ pieces: [[UInt8]], count: Int) {
            state = Mutex(.apart(pieces.reversed()))
            self.count = count
        }

        func joined() -> [UInt8] {
            state.withLock { state in
                switch state {
                case .joined(let bytes): return bytes
                case .apart(var pieces):
                    state = .joined([])
                    let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
                        while let piece = pieces.popLast() {
                            _ = UnsafeMutableBufferPointer(rebasing: buffer[filled...]).initialize(from: piece)
                            filled += piece.count
                        }
                    }
                    state = .joined(bytes)
                    return bytes
                }
            }
        }
    }
}
