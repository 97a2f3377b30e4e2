internal import COpenSSL
internal import Glibc

/// OpenSSL's settings for one side: a certificate with its key, or the trusted authorities. Constant after creation and retained by its
/// connections: a replaced certificate lives as long as the last connection that began with it.
final class TLSContext: @unchecked Sendable {
    // because OpenSSL counts references to a context atomically and changes nothing else in it after its creation.
    let raw: OpaquePointer
    let isServer: Bool
    /// Used by the context for as long as it lives.
    private let tickets: TLSTickets?

    /// - Throws: `TLSError.noMemory`.
    init(server tickets: TLSTickets) throws(TLSError) {
        guard let raw = vigla_tls_server_context(tickets.raw) else { throw .noMemory }
        self.raw = raw
        isServer = true
        self.tickets = tickets
    }

    init(clientTrusting authorities: String?) throws(TLSError) {
        guard let raw = vigla_tls_client_context() else { throw .noMemory }
        self.raw = raw
        isServer = false
        tickets = nil
        guard let authorities else { return }
        let pem = try PEMFile.read(authorities)
        switch Int(vigla_tls_trust(raw, pem, pem.count)) {
        case VIGLA_TLS_FINE: break
        case VIGLA_TLS_NOTHING_THERE: throw .noCertificate(file: authorities)
        default: throw .refused(file: authorities, reason: Self.reason)
        }
    }

    deinit { vigla_tls_context_free(raw) }

    /// Loads the two files; returns all their faults.
    func use(certificate: String, key: String) -> [TLSError] {
        var faults: [TLSError] = []
        do throws(TLSError) { try use(certificate: certificate) } catch { faults.append(error) }
        do throws(TLSError) { try use(key: key, of: certificate) } catch { faults.append(error) }
        return faults
    }

    private func use(certificate file: String) throws(TLSError) {
        let pem = try PEMFile.read(file)
        switch Int(vigla_tls_use_certificate(raw, pem, pem.count)) {
        case VIGLA_TLS_FINE: break
        case VIGLA_TLS_NOTHING_THERE: throw .noCertificate(file: file)
        default: throw .refused(file: file, reason: Self.reason)
        }
    }

    private func use(key file: String, of certificate: String) throws(TLSError) {
        var pem: [UInt8]
        do throws(TLSError) { pem = try PEMFile.read(file) } catch {
            guard case .unreadable(_, EACCES) = error else { throw error }
            throw .keyForbidden(file: file, user: Self.user)
        }
        defer { pem.withUnsafeMutableBytes { if let key = $0.baseAddress { explicit_bzero(key, $0.count) } } }
        switch Int(vigla_tls_use_key(raw, pem, pem.count)) {
        case VIGLA_TLS_FINE: break
        case VIGLA_TLS_NOTHING_THERE: throw .noKey(file: file)
        case VIGLA_TLS_KEY_ENCRYPTED: throw .keyEncrypted(file: file)
        case VIGLA_TLS_KEY_MISMATCH: throw .keyMismatch(key: file, certificate: certificate)
        default: throw .refused(file: file, reason: Self.reason)
        }
    }

    /// Seconds since 1970; nil when it cannot be read.
    var certificateEnd: Int64? {
        let end = vigla_tls_certificate_end(raw)
        return end > 0 ? end : nil
    }

    /// The name of the user that the process runs as.
    private static var user: String { getpwuid(geteuid()).map { String(cString: $0.pointee.pw_name) } ?? "\(geteuid())" }

    private static var reason: String { vigla_tls_error_text().map { String(cString: $0) } ?? "it cannot be used" }
}

/// Keys of session tickets, by which clients resume sessions. All certificates of a server share them, so that no client needs a full
/// handshake because of a renewed certificate.
final class TLSTickets: @unchecked Sendable {
    // because the C side has a lock of its own.
    let raw: OpaquePointer

    /// A ticket can be used for this long to twice this long.
    private static let keySeconds: UInt32 = 12 * 3600

    init() throws(TLSError) {
        guard let raw = vigla_tls_tickets_new(Self.keySeconds) else { throw .noMemory }
        self.raw = raw
    }

    deinit { vigla_tls_tickets_free(raw) }

    func rotate() { vigla_tls_tickets_rotate(raw) }
}

private enum PEMFile {
    /// The largest certificate file that is read: larger than any chain, so that a file given by mistake is not read whole.
    private static let largestBytes = 1 << 20

    static func read(_ path: String) throws(TLSError) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .unreadable(file: path, errno: errno) }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: largestBytes)
        var used = 0
        while used < bytes.count {
            let count = bytes.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress.map { $0 + used }, $0.count - used) }
            if count > 0 { used += count; continue }
            if count == 0 { break }
            if errno != EINTR { throw .unreadable(file: path, errno: errno) }
        }
        bytes.removeLast(bytes.count - used)
        return bytes
    }
}
