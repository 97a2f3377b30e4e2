import CZlib

/// Compresses the messages of one direction (RFC 7692 §7.2.1) with a zlib stream that exists only while needed.
///
/// Takes 2^(windowBits + 2) + 2^(memoryLevel + 9) bytes between the first `compress` and `release`.
final class Deflater: @unchecked Sendable {
    // Sendable: used only through the encoder that owns it, a value confined to one place at a time.
    private let direction: DeflateAgreement.Direction
    private let settings: DeflateSettings
    /// On the heap, as zlib keeps the address of its stream.
    private var stream: UnsafeMutablePointer<z_stream>?

    init(_ direction: DeflateAgreement.Direction, _ settings: DeflateSettings) {
        self.direction = direction
        self.settings = settings.bounded
    }

    deinit { release() }

    /// Frees the stream. The next message then refers to no earlier one, which is always allowed.
    func release() {
        guard let stream else { return }
        deflateEnd(stream)
        stream.deallocate()
        self.stream = nil
    }

    var isAllocated: Bool { stream != nil }

    /// The compressed message; nil unless that makes it shorter. O(n), one allocation of its size.
    func compress(_ payload: UnsafeRawBufferPointer) -> [UInt8]? {
        guard let stream = opened(), let source = payload.bindMemory(to: Bytef.self).baseAddress,
            payload.count <= Self.largestPayload
        else { return nil }
        // A buffer one byte short of payload plus marker: a result that does not fit is not worth sending.
        let room = payload.count + Self.marker.count - 1
        var isComplete = false
        var compressed = [UInt8](unsafeUninitializedCapacity: room) { output, count in
            stream.pointee.next_in = UnsafeMutablePointer(mutating: source)
            stream.pointee.avail_in = uInt(payload.count)
            stream.pointee.next_out = output.baseAddress
            stream.pointee.avail_out = uInt(room)
            let result = deflate(stream, Z_SYNC_FLUSH)
            stream.pointee.next_in = nil
            stream.pointee.next_out = nil
            // A full buffer means that the flush is not complete.
            isComplete = result == Z_OK && stream.pointee.avail_in == 0 && stream.pointee.avail_out > 0
            count = room - Int(stream.pointee.avail_out)
        }
        guard isComplete, compressed.suffix(Self.marker.count) == Self.marker[...] else {
            // The receiver never gets this message, so the window must forget it.
            deflateReset(stream)
            return nil
        }
        compressed.removeLast(Self.marker.count)
        if !direction.takesOverContext { deflateReset(stream) }
        return compressed
    }

    /// zlib's counters have 32 bits.
    private static let largestPayload = Int(UInt32.max) / 2

    /// The end of a flushed block, which is not sent (§7.2.1).
    static let marker: [UInt8] = [0x00, 0x00, 0xFF, 0xFF]

    private func opened() -> UnsafeMutablePointer<z_stream>? {
        if let stream { return stream }
        let fresh = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        fresh.initialize(to: z_stream())
        // zlib has no raw window of 256 bytes. With runs as the only matches (distance 1), the data fits any receiver's window.
        let hasWindow = direction.windowBits >= 9
        let result = vigla_deflate_init(
            fresh, Int32(settings.level), Int32(max(9, direction.windowBits)), Int32(settings.memoryLevel),
            hasWindow ? Z_DEFAULT_STRATEGY : Z_RLE)
        guard result == Z_OK else {
            fresh.deallocate()
            return nil
        }
        stream = fresh
        return fresh
    }
}
