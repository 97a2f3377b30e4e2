import Accounts
import ArgumentParser
import CLinux
import Cryptography
import Dispatch
import Foundation
import Glibc
import HTTPTypes
import JSONTree
import Logging
import Scheduling
import Tokens
import WireProtocols

/// The cost of verifying an ID token, compared with libcrypto's bare RSA check of the same token. Only the ratios
/// are comparable between machines.
struct TokensBench: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tokens", abstract: "CPU per verified ID token, new and seen before, against a bare signature check.")

    @Option(help: "Milliseconds per run.") var milliseconds = 200
    @Option(help: "Runs of each case; the median counts.") var runs = 7

    func validate() throws {
        guard milliseconds > 0, runs > 0 else { throw ValidationError("numbers must be above 0") }
    }

    func run() throws {
        let remembering = try OneUser(remembers: 1_000)
        let forgetful = try OneUser(remembers: 0)
        let token = remembering.token
        let bare = try BareCheck(token, keys: remembering.service.jwks)
        guard bare.check(), (try? remembering.service.check(token).uid) != nil else { throw BenchError.unexpected("the token is not good") }
        remembering.verify(1)
        forgetful.verify(1)

        var (bares, checks, seens, wholes, signs): ([Double], [Double], [Double], [Double], [Double]) = ([], [], [], [], [])
        let payload = [UInt8](repeating: 0x61, count: 500)
        for _ in 0..<runs {
            bares.append(nanoseconds { for _ in 0..<$0 { _ = bare.check() } })
            checks.append(nanoseconds { for _ in 0..<$0 { _ = try? remembering.service.check(token) } })
            seens.append(nanoseconds { remembering.seen($0) })
            wholes.append(nanoseconds { forgetful.verify($0) })
            signs.append(nanoseconds { for _ in 0..<$0 { _ = try? remembering.service.sign(payload) } })
        }
        let base = bares.median
        print("ID token of \(token.utf8.count) bytes, RS256 (median CPU of \(runs) runs)")
        for (title, costs) in [
            ("bare signature check, libcrypto", bares), ("known key: signature and claims", checks),
            ("the same with account and session", wholes), ("seen before", seens), ("signing", signs),
        ] {
            let cost = costs.median
            let name = title.padding(toLength: 36, withPad: " ", startingAt: 0)
            print("  \(name)\((cost / 1000).fixed(2)) µs, \((cost / base).fixed(3)) × the bare check")
        }
    }

    /// CPU nanoseconds of the process for one call, averaged over as many as fit the time.
    private func nanoseconds(_ body: (Int) -> Void) -> Double {
        var count = 1
        while true {
            let start = Self.cpu()
            body(count)
            let cost = Self.cpu() - start
            if cost >= Double(milliseconds) * 0.5e6 { return cost / Double(count) }
            count = max(count * 2, Int(Double(count) * Double(milliseconds) * 1e6 / max(cost, 1000)))
        }
    }

    private static func cpu() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
    }
}

/// A service in memory with one user.
private struct OneUser {
    let service: AccountService
    let token: String

    init(remembers limit: Int) throws {
        var settings = AccountSettings()
        settings.project = "demo-app"
        settings.rememberedTokens = limit
        settings.isDev = true
        let logger = Logger(label: "bench") { _ in SwiftLogNoOpLogHandler() }
        service = try AccountService(settings, folder: nil, logger: logger, scheduler: .system())
        let request = HTTPInboundRequest(
            method: .post, target: try HTTPTarget("/identitytoolkit.googleapis.com/v1/accounts:signUp?key=any"),
            fields: [.contentType: "application/json"],
            body: Array(#"{"email":"ana@example.org","password":"correct horse battery","returnSecureToken":true}"#.utf8))
        // Safe: written before the semaphore is signalled, read after it.
        nonisolated(unsafe) var body: [UInt8] = []
        let isDone = DispatchSemaphore(value: 0)
        service.perform { service in
            body = await service.answer(request, peer: "127.0.0.1").body
            isDone.signal()
        }
        isDone.wait()
        guard let token = try JSONValue(body)["idToken"]?.string else {
            throw BenchError.unexpected("sign-up: \(String(decoding: body, as: UTF8.self))")
        }
        self.token = token
    }

    /// Verifies sequentially, each after the previous answer.
    func verify(_ count: Int) {
        let isDone = DispatchSemaphore(value: 0)
        for _ in 0..<count {
            service.verify(token, leeway: 0) { _ in isDone.signal() }
            isDone.wait()
        }
    }

    /// Verifies tokens that were seen before, which are answered synchronously.
    func seen(_ count: Int) {
        for _ in 0..<count { service.verify(token, leeway: 0) { _ in } }
    }
}

/// The primitives that every verifier needs.
private struct BareCheck {
    private let key: PublicKey
    private let signature: [UInt8]
    private let signed: [UInt8]

    init(_ token: String, keys: [UInt8]) throws {
        let parts = token.split(separator: ".")
        let set = try JSONValue(keys)
        guard parts.count == 3, let signature = Base64.decodeURL(parts[2]), let n = set["keys"]?.elements?.first?["n"]?.string,
            let modulus = Base64.decodeURL(n)
        else { throw BenchError.unexpected("no RSA key") }
        key = try PublicKey(.rsa(modulus: modulus, exponent: [1, 0, 1]))
        self.signature = signature
        signed = Array((parts[0] + "." + parts[1]).utf8)
    }

    func check() -> Bool { signed.withUnsafeBytes { key.isSignature(signature, of: $0) } }
}
