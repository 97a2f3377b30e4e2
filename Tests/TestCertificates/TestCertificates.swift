public import Foundation
import TestSupport

/// Certificates for tests, created once per process by the `openssl` command line tool; removed with the process.
///
/// | Name | Certificate | Key |
/// |---|---|---|
/// | `authority` | signs all others; trusted only where a test says so | |
/// | `server`, `renewed` | for localhost and 127.0.0.1 | its own |
/// | `elsewhere` | for hub.example | its own |
/// | `expired` | for localhost, until yesterday | its own |
/// | `encrypted` | | of `server`, with a passphrase |
public final class TestCertificates: Sendable {
    /// Nil if `openssl` is not installed.
    public static let made: TestCertificates? = TestCertificates()

    public struct Missing: Error {}

    /// - Throws: `Missing` if `openssl` is not installed.
    public static func get() throws -> TestCertificates {
        guard let made else { throw Missing() }
        return made
    }

    public let folder: URL

    public func certificate(_ name: String) -> String { folder.appendingPathComponent(name + ".pem").path }
    public func key(_ name: String) -> String { folder.appendingPathComponent(name + ".key").path }
    public var authority: String { certificate("authority") }

    private init?() {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("vigla-certificates-\(UUID().uuidString)")
        let words = ["-c", Self.script, "sh", folder.path]
        guard let process = try? ChildProcess("/bin/sh", words, output: .null, error: .null) else { return nil }
        process.waitUntilExit()
        Self.remove(folder.path)
        guard process.terminationStatus == 0 else { return nil }
    }

    /// Removes the folder when the process ends.
    private static func remove(_ path: String) {
        setenv("VIGLA_TEST_CERTIFICATES", path, 1)
        atexit { if let path = getenv("VIGLA_TEST_CERTIFICATES") { try? FileManager.default.removeItem(atPath: String(cString: path)) } }
    }

    private static let script = """
        set -e
        mkdir -p "$1" && cd "$1"
        make_key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"; }
        issue() {
            make_key "$1"
            openssl req -new -key "$1.key" -subj "/CN=$1" -out "$1.csr"
            echo "subjectAltName=$2" > "$1.ext"
            openssl x509 -req -in "$1.csr" -CA authority.pem -CAkey authority.key -CAcreateserial -days "$3" -extfile "$1.ext" -out "$1.pem"
        }
        make_key authority
        openssl req -x509 -new -key authority.key -subj "/CN=Vigla test authority" -days 30 -out authority.pem
        issue server DNS:localhost,IP:127.0.0.1 30
        issue renewed DNS:localhost,IP:127.0.0.1 30
        issue elsewhere DNS:hub.example 30
        issue expired DNS:localhost,IP:127.0.0.1 -1
        openssl pkey -in server.key -aes128 -passout pass:secret -out encrypted.key
        """
}
