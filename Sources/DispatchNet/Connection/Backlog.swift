internal import CLinux
internal import DequeModule

/// Bytes that the kernel's buffer could not take, oldest first. Exists only while there are such bytes.
///
/// Small frames are copied out of the turn's shared blocks, because those are reused. A large frame has its own block, which all
/// connections that still need it share.
struct Backlog {
    private struct Piece {
        let block: Block
        var offset: Int
        var end: Int
    }

    /// Pieces are released as soon as they are sent: a peer that never reads the last byte retains only unsent pieces.
    private var pieces: Deque<Piece> = []
    /// The block that copies go to; used by this backlog only.
    private var tail: Block?
    private(set) var bytes = 0

    private static let smallestCopyBlock = 4 << 10
    private static let largestCopyBlock = 256 << 10

    var isEmpty: Bool { bytes == 0 }

    mutating func append(_ block: Block, offset: Int, count: Int) {
        guard count > 0 else { return }
        bytes += count
        if !block.isReused {
            pieces.append(Piece(block: block, offset: offset, end: offset + count))
            return
        }
        let source = UnsafeRawBufferPointer(start: block.base + offset, count: count)
        if let tail, tail.free >= count {
            let offset = tail.used
            tail.append(source)
            if let last = pieces.last, last.block === tail {
                pieces[pieces.count - 1].end = tail.used
            } else {
                pieces.append(Piece(block: tail, offset: offset, end: tail.used))
            }
            return
        }
        let grown = min(Self.largestCopyBlock, max(Self.smallestCopyBlock, (tail?.capacity ?? 0) * 2))
        let fresh = Block(capacity: max(grown, count), isReused: false)
        fresh.append(source)
        tail = fresh
        pieces.append(Piece(block: fresh, offset: 0, end: count))
    }

    /// Fills vectors with the oldest bytes, at most `limit` vectors and `most` bytes, and returns both numbers.
    func fill(_ vectors: UnsafeMutablePointer<iovec>, limit: Int, most: Int = .max) -> (vectors: Int, bytes: Int) {
        var count = 0
        var total = 0
        for piece in pieces.prefix(limit) {
            guard total < most else { break }
            let length = min(piece.end - piece.offset, most - total)
            vectors[count] = iovec(iov_base: piece.block.base + piece.offset, iov_len: length)
            count += 1
            total += length
        }
        return (count, total)
    }

    /// Removes the oldest `count` bytes after they were sent.
    mutating func consume(_ count: Int) {
        var left = count
        bytes -= count
        while left > 0, let oldest = pieces.first {
            let length = oldest.end - oldest.offset
            if left < length {
                pieces[0].offset += left
                break
            }
            left -= length
            pieces.removeFirst()
        }
    }
}
