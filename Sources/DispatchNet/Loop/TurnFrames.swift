/// A run of memory that frames are copied into. Stays put for its whole life, so that an I/O vector may point into it.
final class Block {
    let base: UnsafeMutableRawPointer
    let capacity: Int
    /// Reused every turn: a backlog that needs its bytes longer copies them.
    let isReused: Bool
    /// Bytes in use, from `base`.
    var used = 0

    init(capacity: Int, isReused: Bool) {
        self.capacity = capacity
        self.isReused = isReused
        base = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit { base.deallocate() }

    var free: Int { capacity - used }

    /// Requires that the caller has checked `free`.
    func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress else { return }
        (base + used).copyMemory(from: source, byteCount: bytes.count)
        used += bytes.count
    }
}

/// A frame, or several that lie next to each other, in the loop's ``TurnFrames``.
struct Segment: Equatable {
    var block: UInt32
    var offset: UInt32
    var length: UInt32

    static let none = Segment(block: 0, offset: 0, length: 0)

    /// Whether `next` begins where this one ends, so that both are sent as one run of bytes.
    @inline(__always)
    func isFollowed(by next: Segment) -> Bool {
        block == next.block && offset &+ length == next.offset
    }
}

/// The bytes sent during one turn of a loop, each distinct frame once, however many connections it goes to.
///
/// ```
/// shared blocks, used again every turn          a block of its own for each large frame
/// [frame|frame|frame|……free……] [ ……free…… ]     [frame                ] [frame          ]
///  ▲ connections keep Segments (block, offset, length): 12 bytes, no reference counting
/// ```
///
/// Frames that are broadcast one after the other are neighbours, so a burst of them is one segment per connection
/// and leaves with one plain `send`.
struct TurnFrames {
    /// A frame of at least this size is kept in a block of its own, which slow connections then share.
    static let ownBlockBytes = 16 << 10
    private static let sharedBlockBytes = 256 << 10
    private static let keptBlocks = 4

    private(set) var blocks: [Block] = [Block(capacity: sharedBlockBytes, isReused: true)]
    /// The shared block that is being filled.
    private var filling = 0
    /// The shared blocks, in the order in which they are filled.
    private var shared = [0]
    /// All bytes held for this turn.
    private(set) var bytes = 0

    mutating func store(_ frame: UnsafeRawBufferPointer) -> Segment {
        bytes += frame.count
        var index = shared[filling]
        if frame.count >= Self.ownBlockBytes {
            index = blocks.count
            blocks.append(Block(capacity: frame.count, isReused: false))
        } else if blocks[index].free < frame.count {
            filling += 1
            if filling == shared.count {
                shared.append(blocks.count)
                blocks.append(Block(capacity: Self.sharedBlockBytes, isReused: true))
            }
            index = shared[filling]
        }
        let block = blocks[index]
        let offset = block.used
        block.append(frame)
        return Segment(block: UInt32(index), offset: UInt32(offset), length: UInt32(frame.count))
    }

    /// Clears the turn's frames. Afterwards no connection may hold a segment.
    mutating func reset() {
        guard bytes > 0 else { return }
        bytes = 0
        filling = 0
        if blocks.count > shared.count || shared.count > Self.keptBlocks {
            // Blocks of large frames are released; connections that could not send them retain theirs.
            blocks = shared.prefix(Self.keptBlocks).map { blocks[$0] }
            shared = Array(blocks.indices)
        }
        for block in blocks { block.used = 0 }
    }
}
