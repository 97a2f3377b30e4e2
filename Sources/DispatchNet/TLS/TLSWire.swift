internal import COpenSSL
internal import Glibc

/// The memory that all TLS connections of a loop use, one after the other: records in, records out, plaintext.
/// Between two calls into an engine it holds nothing, so an idle TLS connection has no buffers at all.
final class TLSWire {
    let raw: UnsafeMutablePointer<vigla_tls_wire>
    /// Room for the plaintext of one read of the socket, and of one record that began in earlier reads.
    let plaintext: UnsafeMutableRawBufferPointer

    /// Buffers for a turn's records above this size are freed: few connections ever need so much.
    private static let keptBytes = 1 << 20

    /// - Throws: `NetError.system` when memory is exhausted.
    init(readBufferBytes: Int) throws(NetError) {
        guard let raw = vigla_tls_wire_new() else { throw .system(call: "BIO_new", errno: ENOMEM) }
        self.raw = raw
        plaintext = .allocate(byteCount: readBufferBytes + 2 * Int(VIGLA_TLS_RECORD_BYTES), alignment: 16)
    }

    deinit {
        plaintext.deallocate()
        vigla_tls_wire_free(raw)
    }

    /// The records produced by the last calls, in order.
    var outgoing: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: raw.pointee.out, count: raw.pointee.out_count) }

    func clearOutgoing() {
        raw.pointee.out_count = 0
        if raw.pointee.out_capacity > Self.keptBytes {
            free(raw.pointee.out)
            raw.pointee.out = nil
            raw.pointee.out_capacity = 0
        }
    }
}
