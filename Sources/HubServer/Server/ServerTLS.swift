public import DispatchNet
import Glibc
import HTTPTypes
import Logging
import Scheduling
import WireProtocols

/// The TLS settings of a server.
public struct ServerTLS: Sendable {
    public let identity: TLSServer
    /// The port of a second listener for TLS, 0 to let the system choose; nil puts TLS on the server's only port.
    public let port: UInt16?

    /// - Throws: `TLSFaults` with all faults of the two PEM files.
    public init(certificate: String, key: String, port: UInt16? = nil) throws(TLSFaults) {
        identity = try TLSServer(certificate: certificate, key: key, plainHTTPAnswer: Self.useHTTPS)
        self.port = port
    }

    private static let useHTTPS = HTTPResponseEncoder.response(
        .badRequest, fields: [.contentType: "text/plain; charset=utf-8"], body: Array("This port speaks TLS. Use https or wss.\n".utf8),
        keepsAlive: false)
}

extension Server {
    /// Reloads the certificate's files for new connections; open ones keep theirs. If the files are faulty, the old certificate stays
    /// in use and the faults are logged. From any thread; blocks while it reads.
    public func reloadCertificate() {
        guard let identity = settings.tls?.identity else { return }
        do throws(TLSFaults) {
            try identity.reload()
            logger.info("certificate read again", metadata: ["file": "\(identity.certificateFile)"])
            warnOfExpiry()
        } catch {
            for fault in error.errors {
                logger.error("the certificate before stays in use", metadata: ["reason": "\(fault)"])
            }
        }
    }

    /// Warns of an expired certificate. The server still uses it: clients that resume a TLS session do not check it.
    func warnOfExpiry() {
        guard let identity = settings.tls?.identity, let end = identity.certificateEnd, end < scheduler.wallMs / 1000 else { return }
        logger.warning("the certificate has expired; clients will refuse it", metadata: ["file": "\(identity.certificateFile)"])
    }
}
