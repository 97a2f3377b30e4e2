internal import CLinux
internal import DequeModule

/// What a peer has been too slow to take: bytes in order, oldest first. Exists only while there are some.
///
/// Small remains are copied out of the turn's shared blocks, because those are used again; a large frame has a block
/// of its own, which all connections that still need it share.
struct Backlog {
    private struct Piece {
        let block: Block
        var offset: Int
        var end: Int
    }

    /// A piece of which all has left is let go of at once: a peer that never takes the last byte makes us hold no more than what waits.
    private var pieces: Deque<Piece> = []
    /// The block that copies go to; ours alone.
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

    /// Describes the oldest bytes, in at most `limit` vectors and as many as `most` of them, and says how many vectors and bytes
    /// they are.
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

    /// Forgets the oldest `count` bytes: they have left.
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
