internal import Glibc

/// What is wrong with files for TLS. The text names the file and what to do; it never holds any of a key.
public enum TLSError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The system does not give the file.
    case unreadable(file: String, errno: Int32)
    /// The file holds no certificate in PEM form.
    case noCertificate(file: String)
    /// The file holds no private key in PEM form.
    case noKey(file: String)
    /// The private key asks for a passphrase, which nobody can type here.
    case keyEncrypted(file: String)
    /// The private key belongs to another certificate.
    case keyMismatch(key: String, certificate: String)
    /// OpenSSL does not accept what is in the file: too short a key, damage.
    case refused(file: String, reason: String)
    /// The system has no memory for it.
    case noMemory

    /// The file to look at.
    public var file: String? {
        switch self {
        case .unreadable(let file, _), .noCertificate(let file), .noKey(let file), .keyEncrypted(let file), .keyMismatch(let file, _), .refused(let file, _):
            file
        case .noMemory: nil
        }
    }

    public var description: String {
        switch self {
        case .unreadable(let file, let errno): "cannot read \(file): \(String(cString: strerror(errno)).lowercased())"
        case .noCertificate(let file): "\(file) holds no certificate (PEM, -----BEGIN CERTIFICATE-----)"
        case .noKey(let file): "\(file) holds no private key (PEM, -----BEGIN PRIVATE KEY-----)"
        case .keyEncrypted(let file): "the private key in \(file) is encrypted; write it without passphrase (openssl pkey -in \(file) -out FILE) and let only this user read it"
        case .keyMismatch(let key, let certificate): "the private key in \(key) does not belong to the certificate in \(certificate)"
        case .refused(let file, let reason): "\(file) cannot be used: \(reason)"
        case .noMemory: "no memory for TLS"
        }
    }
}

/// Everything that is wrong with a server's files.
public struct TLSFaults: Error, Sendable, CustomStringConvertible {
    public let errors: [TLSError]
    public var description: String { errors.map(\.description).joined(separator: "; ") }
}
