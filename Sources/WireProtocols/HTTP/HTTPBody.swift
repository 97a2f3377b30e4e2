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

    /// The same for its only reader: large content belongs to the caller alone afterwards, and copies of the body are empty. So the
    /// request frees nothing large on its net loop.
    public func detachBytes() -> [UInt8] {
        switch content {
        case .whole(let bytes): bytes
        case .pieces(let pieces): pieces.detach()
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

        func joined() -> [UInt8] { state.withLock { put(&$0) } }

        func detach() -> [UInt8] {
            state.withLock { state in
                defer { state = .joined([]) }
                return put(&state)
            }
        }

        /// Puts it together, if it is not.
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
