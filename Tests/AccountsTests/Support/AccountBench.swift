import HTTPTypes
import Journal
import JSONTree
import Synchronization
import Testing
import TestSupport
import WireProtocols

@testable import Accounts
@testable import Mail
@testable import Tokens

/// A service with its own clock, called as its clients call it.
struct AccountBench: Sendable {
    let service: AccountService
    let clock: FakeClock
    let changes = Collected<AccountChange>()
    /// Receives all mails.
    let mailbox = Mailbox()

    static let administrator = "secret-of-an-administrator"

    /// Without enumeration protection and throttling, unless the test says otherwise.
    init(
        folder: String? = nil, clock: FakeClock = FakeClock(), fetcher: (any KeyFetching)? = nil, log: (any SharedLog)? = nil,
        _ configure: (inout AccountSettings) -> Void = { _ in }
    ) throws {
        var settings = AccountSettings()
        settings.project = "demo-app"
        settings.publicURL = "https://hub.example.org"
        settings.signingAlgorithm = .es256
        settings.passwords = .quick
        settings.throttle.isOn = false
        settings.hidesAccounts = false
        settings.recentLoginSeconds = 0
        configure(&settings)
        self.clock = clock
        service = try AccountService(
            settings, folder: folder, isAdministrator: { $0 == Self.administrator }, fetcher: fetcher,
            logger: .silent, scheduler: clock.scheduler, log: log, transport: mailbox)
        service.whenChanged { [changes] in changes.add($0) }
    }

    // MARK: Requests

    /// A request to any path.
    func ask(
        _ path: String, _ body: JSONValue = .object([]), method: HTTPRequest.Method = .post, key: Bool = true, fields: HTTPFields = [:],
        raw: String? = nil,
        peer: String = "192.0.2.7"
    ) async throws -> Reply {
        let target = try HTTPTarget("/" + path + (key ? (path.contains("?") ? "&" : "?") + "key=any" : ""))
        var all = fields
        if all[.contentType] == nil { all[.contentType] = "application/json" }
        let request = HTTPInboundRequest(
            method: method, target: target, fields: all, body: raw.map { Array($0.utf8) } ?? (method == .get ? [] : body.bytes))
        return Reply(await service.answer(request, peer: peer))
    }

    /// A client endpoint under its v1 name.
    func call(_ name: String, _ body: JSONValue = .object([])) async throws -> Reply {
        try await ask("identitytoolkit.googleapis.com/v1/accounts:\(name)", body)
    }

    /// The same as an administrator.
    func administer(_ name: String, _ body: JSONValue) async throws -> Reply {
        try await ask(
            "identitytoolkit.googleapis.com/v1/accounts:\(name)", body, key: false,
            fields: [.authorization: "Bearer \(Self.administrator)"])
    }

    func refresh(_ refreshToken: String?) async throws -> Reply {
        try await ask("securetoken.googleapis.com/v1/token", ["grantType": "refresh_token", "refreshToken": .string(refreshToken ?? "")])
    }

    // MARK: Common steps

    /// A code obtained as an administrator, who gets it without a mail.
    func code(_ type: String, _ email: String, newEmail: String? = nil) async throws -> String {
        var body: [JSONValue.Member] = [.init("requestType", .string(type)), .init("email", .string(email)), .init("returnOobLink", true)]
        body.add("newEmail", newEmail)
        let reply = try await administer("sendOobCode", .object(body))
        return try #require(reply["oobCode"]?.string, "\(reply.text)")
    }

    func signUp(_ email: String? = nil, _ password: String = "correct horse") async throws -> Reply {
        let body: JSONValue = email.map { [
            "email": .string($0), "password": .string(password), "returnSecureToken": true,
        ] } ?? ["returnSecureToken": true]
        let reply = try await call("signUp", body)
        #expect(reply.status == 200, "\(reply.text)")
        return reply
    }

    func signIn(_ email: String, _ password: String = "correct horse") async throws -> Reply {
        try await call("signInWithPassword", ["email": .string(email), "password": .string(password), "returnSecureToken": true])
    }

    /// The account as returned by `lookup`.
    func user(_ signedIn: Reply) async throws -> JSONValue {
        let reply = try await call("lookup", ["idToken": signedIn["idToken"] ?? .null])
        #expect(reply.status == 200, "\(reply.text)")
        let users = try #require(reply["users"]?.elements)
        #expect(users.count == 1)
        return try #require(users.first)
    }

    /// Changes the stored account, as an administrator could.
    func change(_ reply: Reply, _ change: @Sendable (inout Account) -> Void) async throws {
        try await self.change(try #require(reply["localId"]?.string), change)
    }

    func change(_ uid: String, _ change: @Sendable (inout Account) -> Void) async throws { try await service.change(uid, change) }
}

extension AccountService {
    fileprivate func change(_ uid: String, _ change: @Sendable (inout Account) -> Void) throws {
        try store.transaction { transaction in
            guard var account = try transaction.account(.id(uid)) else { return }
            change(&account)
            try transaction.save(account)
        }
    }

    /// Runs a sweep immediately.
    func sweep() {
        var step: SweepStep? = .sessions
        while let now = step { step = sweep(now) }
    }

    /// Reads from the store what no endpoint shows.
    func stored<Result: Sendable>(_ look: @Sendable (AccountTransaction) throws -> Result) throws -> Result {
        try store.read { try look($0) }
    }
}

/// A parsed answer.
struct Reply: Sendable {
    let status: Int
    let fields: HTTPFields
    let text: String
    /// Nil if the body is not JSON.
    let body: JSONValue?

    init(_ answer: AccountAnswer) {
        status = answer.status.code
        fields = answer.fields
        text = String(decoding: answer.body, as: UTF8.self)
        body = try? JSONValue(answer.body)
    }

    /// By its exact name.
    subscript(name: String) -> JSONValue? { body?.members?.first { $0.name == name }?.value }

    /// `error.message`
    var error: String? { body?["error"]?["message"]?.string }

    /// The claims of `idToken`, unchecked.
    var claims: JSONValue { Self.claims(self["idToken"]) }

    static func claims(_ token: JSONValue?) -> JSONValue {
        let parts = token?.string?.split(separator: ".") ?? []
        guard parts.count == 3, let bytes = Base64.decodeURL(parts[1]) else { return .null }
        return (try? JSONValue(bytes)) ?? .null
    }
}

extension PasswordHasher {
    /// Its waiting passwords are never overdue.
    convenience init(_ settings: PasswordSettings) { self.init(settings, FakeClock().scheduler) }
}

/// Collects the arguments of a closure's calls.
final class Collected<Element: Sendable>: Sendable {
    private let elements = Mutex<[Element]>([])

    var all: [Element] { elements.withLock { $0 } }

    func add(_ element: Element) { elements.withLock { $0.append(element) } }

    func removeAll() { elements.withLock { $0 = [] } }
}
