import CZlib

/// Decompresses the messages of one direction (RFC 7692 §7.2.2), piece by piece as they arrive.
///
/// Takes about 42 KiB from the first byte of a message until its end, or until the connection's end if the sender may refer to earlier
/// messages. The window is always the largest, even if a smaller one was negotiated. With a smaller one, zlib would accept or refuse a
/// reference that is too far, depending on how the bytes arrived.
final class Inflater: @unchecked Sendable {
    // Sendable: used only through the decoder that owns it, a value confined to one place at a time.
    private let takesOverContext: Bool
    /// On the heap, as zlib keeps the address of its stream.
    private var stream: UnsafeMutablePointer<z_stream>?
    /// Whether the open message has received a byte.
    private var hasInput = false

    init(takesOverContext: Bool) {
        self.takesOverContext = takesOverContext
    }

    deinit { release() }

    var isAllocated: Bool { stream != nil }

    private func release() {
        guard let stream else { return }
        inflateEnd(stream)
        stream.deallocate()
        self.stream = nil
    }

    /// Decompresses the next piece of a message. `emit` gets the output in pieces of at most 16 KiB, one at a time. By throwing, it stops a message
    /// that grows without bound.
    func inflate(
        _ piece: UnsafeRawBufferPointer, _ emit: (UnsafeRawBufferPointer) throws(WebSocketError) -> Void
    ) throws(WebSocketError) {
        guard !piece.isEmpty else { return }
        hasInput = true
        guard let stream = opened(), let source = piece.bindMemory(to: Bytef.self).baseAddress else { throw .badCompression }
        var rest = UnsafeBufferPointer(start: source, count: piece.count)[...]
        // zlib's counters have 32 bits.
        while !rest.isEmpty {
            let part = UnsafeBufferPointer(rebasing: rest.prefix(1 << 30))
            rest = rest.dropFirst(part.count)
            try inflate(part, stream, emit)
        }
    }

    private func inflate(
        _ part: UnsafeBufferPointer<Bytef>, _ stream: UnsafeMutablePointer<z_stream>,
        _ emit: (UnsafeRawBufferPointer) throws(WebSocketError) -> Void
    ) throws(WebSocketError) {
        stream.pointee.next_in = UnsafeMutablePointer(mutating: part.baseAddress)
        stream.pointee.avail_in = uInt(part.count)
        defer { stream.pointee.next_in = nil }
        while true {
            var result = Z_OK
            var failure: WebSocketError?
            var isFull = false
            withUnsafeTemporaryAllocation(byteCount: Self.stepBytes, alignment: 16) { output in
                stream.pointee.next_out = output.bindMemory(to: Bytef.self).baseAddress
                stream.pointee.avail_out = uInt(output.count)
                result = CZlib.inflate(stream, Z_SYNC_FLUSH)
                stream.pointee.next_out = nil
                let count = output.count - Int(stream.pointee.avail_out)
                isFull = count == output.count
                guard count > 0 else { return }
                do throws(WebSocketError) { try emit(UnsafeRawBufferPointer(rebasing: output[..<count])) } catch { failure = error }
            }
            if let failure { throw failure }
            switch result {
            case Z_OK:
                // After a full step zlib may hold more output, even if all input is consumed.
                if stream.pointee.avail_in == 0, !isFull { return }
            case Z_BUF_ERROR where stream.pointee.avail_in == 0: return
            case Z_STREAM_END:
                // A sender may end blocks with BFINAL; decompression continues regardless (§7.2.3.4).
                guard inflateResetKeep(stream) == Z_OK else { throw .badCompression }
                if stream.pointee.avail_in == 0 { return }
            default: throw .badCompression
            }
        }
    }

    /// Ends a message. Throws if it ends inside a block.
    func finish(_ emit: (UnsafeRawBufferPointer) throws(WebSocketError) -> Void) throws(WebSocketError) {
        // Some senders send no payload for an empty message.
        guard hasInput, let stream else { return }
        var failure: WebSocketError?
        Deflater.marker.withUnsafeBufferPointer { marker in
            do throws(WebSocketError) { try inflate(marker, stream, emit) } catch { failure = error }
        }
        if let failure { throw failure }
        // zlib sets this bit between two blocks.
        guard stream.pointee.data_type & 128 != 0 else { throw .badCompression }
        hasInput = false
        if !takesOverContext { release() }
    }

    private static let stepBytes = 16 << 10

    private func opened() -> UnsafeMutablePointer<z_stream>? {
        if let stream { return stream }
        let fresh = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        fresh.initialize(to: z_stream())
        guard vigla_inflate_init(fresh, MAX_WBITS) == Z_OK else {
            fresh.deallocate()
            return nil
        }
        stream = fresh
        return fresh
    }
}
