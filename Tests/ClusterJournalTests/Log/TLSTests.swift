import TestCertificates
import TestCluster
import Testing
import TestSupport

@testable import ClusterJournal

/// Hubs that connect to the servers by TLS, and their errors if that fails.
@Suite(
    .timeLimit(.minutes(30)), .enabled(if: TestCluster.program != nil, "\(TestCluster.absent)"),
    .enabled(if: TestCertificates.made != nil, "openssl is not installed"))
struct ClusterTLSTests {
    private let certificates: TestCertificates
    private let lines = LineLog()

    init() throws { certificates = try TestCertificates.get() }

    private func own(_ name: String) -> (file: String, key: String) { (certificates.certificate(name), certificates.key(name)) }

    private func connect(_ cluster: TestCluster, _ change: (inout NatsConnection.Settings) -> Void) throws -> NatsConnection {
        var settings = NatsConnection.Settings(servers: cluster.urls)
        change(&settings)
        return try NatsConnection(settings, logger: lines.logger)
    }

    @Test func servers_thatAskForCertificates_areReachedWithThem() async throws {
        let cluster = try TestCluster(certificate: own("server"), authority: certificates.authority)
        let connection = try connect(cluster) { ($0.authority, $0.certificate) = (certificates.authority, own("renewed")) }
        #expect(await becomes { connection.isConnected })
        // And a log works over it.
        let log = ShardLog(connection, name: "VIGLA_tls_0", settings: ClusterSettings(name: "tls").log)
        #expect(await eventually {
            let found = await withCheckedContinuation { continuation in
                log.look(mayCreate: true, at: 0) { continuation.resume(returning: $0) }
            }
            if case .success = found { return true }
            return false
        })
    }

    @Test func reason_whyAServerIsOfNoUse_isSaid() async throws {
        let secure = try TestCluster(servers: 1, certificate: own("server"))
        let plain = try TestCluster(servers: 1)
        let known = try connect(secure) { $0.authority = certificates.authority }
        #expect(await becomes { known.isConnected })
        let reached = try connect(plain) { _ in }
        #expect(await becomes { reached.isConnected })
        #expect(lines.all.isEmpty, "\(lines.all)")
        func said(_ cluster: TestCluster, _ change: (inout NatsConnection.Settings) -> Void) throws -> String {
            let before = lines.all.count
            let connection = try connect(cluster, change)
            #expect(!connection.isConnected)
            connection.close()
            return lines.all.dropFirst(before).joined()
        }
        #expect(try said(secure) { _ in }.contains("SSL handshake error"))
        let named = try said(secure) { $0.servers = $0.servers.map { $0.replacing("tls://", with: "nats://") } }
        #expect(named.contains("it wants TLS, and is named by nats://"), "\(named)")
        let bare = try said(plain) { $0.servers = $0.servers.map { $0.replacing("nats://", with: "tls://") } }
        #expect(bare.contains("it has no TLS"), "\(bare)")
    }

    @Test func certificate_ofAnotherHost_isRefused() async throws {
        let cluster = try TestCluster(servers: 1, certificate: own("elsewhere"))
        let settings = { (settings: inout NatsConnection.Settings) in settings.authority = certificates.authority }
        // The server may take a moment to start.
        #expect(try await eventually {
            let connection = try connect(cluster, settings)
            defer { connection.close() }
            return !connection.isConnected && lines.all.contains { $0.contains("of no use") }
        }, "\(lines.all)")
    }

    @Test func files_thatCannotBeUsed_areNamed() throws {
        let file = certificates.key("server")
        let (absent, wrong) = (Self.settings { $0.authority = "/absent.pem" }, Self.settings { $0.certificate = (file, file) })
        #expect { try NatsConnection(absent, logger: .silent) } throws: { "\($0)".contains("/absent.pem") }
        #expect { try NatsConnection(wrong, logger: .silent) } throws: { "\($0)".contains(file) }
    }

    private static func settings(_ change: (inout NatsConnection.Settings) -> Void) -> NatsConnection.Settings {
        var settings = NatsConnection.Settings(servers: ["tls://127.0.0.1:1"])
        change(&settings)
        return settings
    }
}
