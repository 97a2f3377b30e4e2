internal import Synchronization

/// The certificate that a listener shows, and what makes sessions resumable. One for any number of listeners.
///
/// TLS 1.2 and 1.3, ALPN `http/1.1`; only ciphers with forward secrecy and authenticated encryption (RFC 9325 §4.2).
public final class TLSServer: Sendable {
    public let certificateFile: String
    public let keyFile: String
    /// Sent, without TLS, to a peer that begins with an HTTP request instead of a handshake; empty just closes.
    public let plainHTTPAnswer: [UInt8]
    private let tickets: TLSTickets
    private let current: Mutex<TLSContext>

    /// Reads the two files (PEM; the certificate is followed by those that lead to its authority). Blocks.
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

    /// Reads the files again. Handshakes that begin from now on show the new certificate; open connections and sessions
    /// go on. With anything wrong the old certificate stays. From any thread; blocks.
    public func reload() throws(TLSFaults) {
        let fresh: TLSContext
        do throws(TLSError) { fresh = try TLSContext(server: tickets) } catch { throw TLSFaults(errors: [error]) }
        let faults = fresh.use(certificate: certificateFile, key: keyFile)
        guard faults.isEmpty else { throw TLSFaults(errors: faults) }
        current.withLock { $0 = fresh }
    }

    /// When the certificate in use ends, in seconds since 1970.
    public var certificateEnd: Int64? { context.certificateEnd }

    /// Of a connection that begins now.
    var role: TLSRole { TLSRole(context: context, plainHTTPAnswer: plainHTTPAnswer) }

    var context: TLSContext { current.withLock { $0 } }

    /// New keys for tickets, as happens each 12 hours by itself; tickets of the keys before still open sessions.
    func rotateTicketKeys() { tickets.rotate() }
}

/// Whom a client believes. The server's certificate must lead to an authority that is trusted, be valid now, and be for
/// the host that was asked for; there is no way around this.
public final class TLSClient: Sendable {
    let context: TLSContext
    let name: String?

    /// Blocks.
    /// - Parameters:
    ///   - authorities: a PEM file of certificates that are trusted as well as the system's (`/etc/ssl/certs`, or what
    ///     `SSL_CERT_FILE` and `SSL_CERT_DIR` say): of authorities, or the server's own.
    ///   - name: the host that the certificate must be for, when a server is dialled by another name or by its address.
    public init(authorities: String? = nil, name: String? = nil) throws(TLSError) {
        self.name = name
        context = try TLSContext(clientTrusting: authorities)
    }
}
