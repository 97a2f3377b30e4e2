import Synchronization

/// The content of a message. Large content stays in the pieces in which it arrived until a caller needs it in one. Joining takes long, and must
/// not run on an event loop.
public struct HTTPBody: Sendable {
    /// The piece size: a full piece is never moved as more arrive. Default 1 MiB, which is moved or allocated in well below a ms.
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

    /// The whole content. Joins the pieces on first use, O(n), freeing them one by one.
    public var bytes: [UInt8] {
        switch content {
        case .whole(let bytes): bytes
        case .pieces(let pieces): pieces.joined()
        }
    }

    /// The whole content for its only reader. The caller becomes the only owner of large content, and copies of the body become empty. So the
    /// request frees nothing large on its event loop.
    public func detachBytes() -> [UInt8] {
        switch content {
        case .whole(let bytes): bytes
        case .pieces(let pieces): pieces.detach()
        }
    }

    /// Shared by the copies of a request, so that the content is joined once for all of them.
    private final class Pieces: Sendable {
        private enum State {
            /// In reverse order.
            case apart([[UInt8]])
            case joined([UInt8])
        }

        private let state: Mutex<State>
        private let count: Int

        init(_ pieces: [[UInt8]], count: Int) {
            state = Mutex(.apart(pieces.reversed()))
            self.count = count
        }

        func joined() -> [UInt8] { state.withLock { put(&$0) } }

        func detach() -> [UInt8] {
            state.withLock { state in
                defer { state = .joined([]) }
                return put(&state)
            }
        }

        /// Joins the pieces, unless they already are.
        private func put(_ state: inout State) -> [UInt8] {
            guard case .apart(var pieces) = state else {
                if case .joined(let bytes) = state { return bytes }
                return []
            }
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
