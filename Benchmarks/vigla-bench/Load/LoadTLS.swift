import CLinux
import COpenSSL
import Glibc

/// TLS clients for the load generator: all its connections share one wire.
final class LoadTLS {
    private let context: OpaquePointer
    fileprivate let wire: UnsafeMutablePointer<vigla_tls_wire>
    fileprivate let plaintext = UnsafeMutableRawBufferPointer.allocate(byteCount: 512 << 10, alignment: 16)

    init(trusting file: String) throws {
        guard let context = vigla_tls_client_context(), let wire = vigla_tls_wire_new(), let pem = fopen(file, "r") else {
            throw BenchError.system("a TLS client", errno: errno)
        }
        defer { fclose(pem) }
        var bytes = [UInt8](repeating: 0, count: 64 << 10)
        let count = fread(&bytes, 1, bytes.count, pem)
        guard vigla_tls_trust(context, bytes, count) == 0 else { throw BenchError.unexpected("the certificate \(file)") }
        self.context = context
        self.wire = wire
    }

    /// Completes the handshake, waiting for it.
    func connect(_ peer: LoadPeer) throws -> Session {
        guard let tls = vigla_tls_new(context, wire, false), vigla_tls_expect_host(tls, "127.0.0.1", true) else {
            throw BenchError.system("SSL_new", errno: ENOMEM)
        }
        let session = Session(self, tls)
        var input = [UInt8](repeating: 0, count: 64 << 10)
        var got = 0
        while true {
            let result = input.withUnsafeBufferPointer { input in
                wire.pointee.in = input.baseAddress
                wire.pointee.in_count = got
                return vigla_tls_handshake(tls)
            }
            try peer.sendRaw(dequeueOutgoing())
            if result == 1 { return session }
            guard result == 0 else {
                throw BenchError.unexpected("no TLS: \(vigla_tls_take_failure(tls).text.map { String(cString: $0) } ?? "")")
            }
            var wait = pollfd(fd: peer.fd, events: Int16(POLLIN), revents: 0)
            guard poll(&wait, 1, 20_000) == 1 else { throw BenchError.incomplete("a handshake") }
            got = vigla_receive(peer.fd, &input, input.count)
            guard got > 0 else { throw BenchError.connectionLost("handshake, \(got)") }
        }
    }

    fileprivate func dequeueOutgoing() -> [UInt8] {
        defer { wire.pointee.out_count = 0 }
        return Array(UnsafeBufferPointer(start: wire.pointee.out, count: wire.pointee.out_count))
    }

    /// One connection.
    final class Session {
        private let shared: LoadTLS
        private let tls: OpaquePointer

        fileprivate init(_ shared: LoadTLS, _ tls: OpaquePointer) {
            self.shared = shared
            self.tls = tls
        }

        deinit { vigla_tls_free(tls) }

        func encrypt(_ bytes: [UInt8]) -> [UInt8] {
            var bytes = bytes
            bytes.withUnsafeMutableBytes { bytes in
                var vector = iovec(iov_base: bytes.baseAddress, iov_len: bytes.count)
                _ = vigla_tls_write(tls, shared.wire, &vector, 1, .max)
            }
            return shared.dequeueOutgoing()
        }

        /// Valid until the next call for any session.
        func decrypt(_ records: UnsafeRawBufferPointer, _ peer: LoadPeer) throws -> UnsafeRawBufferPointer {
            shared.wire.pointee.in = records.baseAddress?.assumingMemoryBound(to: UInt8.self)
            shared.wire.pointee.in_count = records.count
            var filled = 0
            while true {
                let count = vigla_tls_read(tls, shared.plaintext.baseAddress.map { $0 + filled }, shared.plaintext.count - filled)
                if count == 0 { break }
                guard count > 0 else { throw BenchError.connectionLost("connection \(peer.index), TLS") }
                filled += count
            }
            return UnsafeRawBufferPointer(rebasing: shared.plaintext[..<filled])
        }
    }
}

/// A certificate for 127.0.0.1 in a temporary folder, created by the `openssl` command line tool.
final class BenchCertificate {
    private let folder: BenchFolder
    var file: String { folder.path + "/certificate.pem" }
    var keyFile: String { folder.path + "/key.pem" }

    init() throws {
        folder = try BenchFolder()
        let command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost "
            + "-addext subjectAltName=IP:127.0.0.1 -keyout \(keyFile) -out \(file) 2>/dev/null"
        guard system(command) == 0 else { throw BenchError.serverFailed("openssl makes no certificate; is it installed?") }
    }
}
