internal import Synchronization

/// The certificate and the session ticket keys of listeners. One instance serves any number of listeners.
///
/// TLS 1.2 and 1.3, ALPN `http/1.1`; only ciphers with forward secrecy and authenticated encryption (RFC 9325 §4.2).
public final class TLSServer: Sendable {
    public let certificateFile: String
    public let keyFile: String
    /// Sent, without TLS, to a peer that begins with an HTTP request instead of a handshake; empty just closes.
    public let plainHTTPAnswer: [UInt8]
    private let tickets: TLSTickets
    private let current: Mutex<TLSContext>

    /// Reads the two files (PEM; the certificate is followed by its intermediate certificates). Blocks.
    public init(certificate: String, key: String, plainHTTPAnswer: [UInt8] = []) throws(TLSFaults) {
        let made: (TLSTickets, TLSContext)
        do throws(TLSError) {
            let tickets = try TLSTickets()
            made = (tickets, try TLSContext(server: tickets))
        } catch { throw TLSFaults(errors: [error]) }
        let faults = made.1.use(certificate: certificate, key: key)
        guard faults.isEmpty else { throw TLSFaults(errors: faults) }
        certificateFile = certificate
        keyFile = key
        self.plainHTTPAnswer = plainHTTPAnswer
        tickets = made.0
        current = Mutex(made.1)
    }

    /// Reloads the files. Handshakes that begin from now on use the new certificate; open connections and sessions
    /// continue. If the files are faulty the old certificate stays. From any thread; blocks.
    public func reload() throws(TLSFaults) {
        let fresh: TLSContext
        do throws(TLSError) { fresh = try TLSContext(server: tickets) } catch { throw TLSFaults(errors: [error]) }
        let faults = fresh.use(certificate: certificateFile, key: keyFile)
        guard faults.isEmpty else { throw TLSFaults(errors: faults) }
        current.withLock { $0 = fresh }
    }

    /// When the certificate in use expires, in seconds since 1970.
    public var certificateEnd: Int64? { context.certificateEnd }

    /// The context of new connections.
    var role: TLSRole { TLSRole(context: context, plainHTTPAnswer: plainHTTPAnswer) }

    var context: TLSContext { current.withLock { $0 } }

    /// Rotates the ticket keys, as happens every 12 hours; tickets of the previous keys remain valid.
    func rotateTicketKeys() { tickets.rotate() }
}

/// The certificate verification of a client. The server's certificate must lead to a trusted authority, be valid now, and be for
/// the requested host; this cannot be disabled.
public final class TLSClient: Sendable {
    let context: TLSContext
    let name: String?

    /// Blocks.
    /// - Parameters:
    ///   - authorities: a PEM file of certificates to trust in addition to the system's (`/etc/ssl/certs`, or
    ///     `SSL_CERT_FILE` and `SSL_CERT_DIR`): of authorities, or the server's own.
    ///   - name: the host that the certificate must be for, when a server is dialled by another name or by its address.
    public init(authorities: String? = nil, name: String? = nil) throws(TLSError) {
        self.name = name
        context = try TLSContext(clientTrusting: authorities)
    }
}
