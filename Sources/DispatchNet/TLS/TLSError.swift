internal import Glibc

/// A fault of a certificate or key file. The text names the file and the remedy; it never contains key material.
public enum TLSError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The file cannot be read.
    case unreadable(file: String, errno: Int32)
    /// The process' user may not read the private key.
    case keyForbidden(file: String, user: String)
    /// The file holds no certificate in PEM form.
    case noCertificate(file: String)
    /// The file holds no private key in PEM form.
    case noKey(file: String)
    /// The private key is encrypted, and a server has no terminal to ask for its passphrase.
    case keyEncrypted(file: String)
    /// The private key belongs to another certificate.
    case keyMismatch(key: String, certificate: String)
    /// OpenSSL rejects the content of the file: the key is too short, or the file is damaged.
    case refused(file: String, reason: String)
    /// An allocation failed.
    case noMemory

    /// The faulty file.
    public var file: String? {
        switch self {
        case .unreadable(let file, _), .keyForbidden(let file, _), .noCertificate(let file), .noKey(let file), .keyEncrypted(let file),
            .keyMismatch(let file, _), .refused(let file, _):
            file
        case .noMemory: nil
        }
    }

    public var description: String {
        switch self {
        case .unreadable(let file, let errno): "cannot read \(file): \(String(cString: strerror(errno)).lowercased())"
        case .keyForbidden(let file, let user):
            "cannot read \(file): permission denied. The hub runs as \(user): chown \(user) \(file), mode 0400"
        case .noCertificate(let file): "\(file) holds no certificate (PEM, -----BEGIN CERTIFICATE-----)"
        case .noKey(let file): "\(file) holds no private key (PEM, -----BEGIN PRIVATE KEY-----)"
        case .keyEncrypted(let file):
            "the private key in \(file) is encrypted; write it without passphrase "
                + "(openssl pkey -in \(file) -out FILE) and let only this user read it"
        case .keyMismatch(let key, let certificate): "the private key in \(key) does not belong to the certificate in \(certificate)"
        case .refused(let file, let reason): "\(file) cannot be used: \(reason)"
        case .noMemory: "no memory for TLS"
        }
    }
}

/// All faults of a server's certificate and key files.
public struct TLSFaults: Error, Sendable, CustomStringConvertible {
    public let errors: [TLSError]
    public var description: String { errors.map(\.description).joined(separator: "; ") }
}
