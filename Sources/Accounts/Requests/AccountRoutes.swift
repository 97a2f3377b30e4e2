import HTTPTypes
import JSONTree
import Tokens
import WireProtocols

/// All routes of the service, in the order of the contract (accounts contract §2.1).
enum AccountRoutes {
    static let all = clients + pages + facts + administration + development + oauth + operation + unbuilt

    static let byPath: [String: [AccountRoute]] = {
        var byPath: [String: [AccountRoute]] = [:]
        for route in all { for path in route.paths { byPath[path, default: []].append(route) } }
        return byPath
    }()

    private static let clients: [AccountRoute] = [
        .client("accounts:signUp", "signupNewUser", administrators: { try await $0.createAccount($1) }) { try await $0.signUp($1) },
        .client("accounts:signInWithPassword", "verifyPassword") { try await $0.signInWithPassword($1) },
        .client("accounts:lookup", "getAccountInfo", administrators: { try $0.lookUpAccounts($1) }) { try await $0.lookUp($1) }.avoidingJSONErrors,
        .client("accounts:update", "setAccountInfo", actingBy: ["oobCode"], administrators: { try await $0.updateAccount($1) }) {
            try await $0.update($1)
        },
        .client("accounts:delete", "deleteAccount", actingBy: [], administrators: { try await $0.deleteAccount($1) }) {
            try await $0.delete($1)
        },
        .client("accounts:sendOobCode", "getOobConfirmationCode") { try await $0.sendCode($1) },
        .client("accounts:resetPassword", "resetPassword") { try await $0.resetPassword($1) },
        .client("accounts:signInWithEmailLink", "emailLinkSignin") { try await $0.signInWithEmailLink($1) },
        .client("accounts:signInWithIdp", "verifyAssertion") { try await $0.signInWithIdp($1) },
        .client("accounts:signInWithCustomToken", "verifyCustomToken") { try await $0.signInWithCustomToken($1) },
        .client("accounts:createAuthUri", "createAuthUri") { try await $0.createAuthURI($1) },
        AccountRoute(.post, ["securetoken.googleapis.com/v1/token"], .clients, reads: .jsonOrForm) { try await $0.refresh($1) }.avoidingJSONErrors,
    ]

    /// Routes that describe the service.
    private static let facts: [AccountRoute] = [
        AccountRoute(.get, ["\(AccountRoute.identity)/v1/projects", "\(AccountRoute.legacy)/getProjectConfig"], .clients) { service, _ in
            service.projectConfiguration()
        },
        AccountRoute(.get, ["\(AccountRoute.identity)/v2/passwordPolicy"], .clients) { service, _ in service.passwordPolicy() },
        // There is no reCAPTCHA, but the SDKs request its configuration.
        AccountRoute(.get, ["\(AccountRoute.identity)/v2/recaptchaConfig"], .clients) { _, _ in
            AccountAnswer([.init("recaptchaEnforcementState", [])])
        },
        AccountRoute(.get, ["\(AccountRoute.identity)/v1/recaptchaParams", "\(AccountRoute.legacy)/getRecaptchaParam"], .clients) { _, _ in
            AccountAnswer([.init("recaptchaSiteKey", "none"), .init("recaptchaStoken", "none")])
        },
        AccountRoute(.get, [".well-known/jwks.json"], .anyone) { service, _ in service.publicKeys() },
        AccountRoute(.get, [".well-known/openid-configuration"], .anyone) { service, _ in service.discovery() },
    ]

    /// Pages behind mailed links. Test suites expect them at the second path, where a GET runs the action, as in the vendor's emulator (accounts
    /// contract §8).
    private static let pages: [AccountRoute] = [
        AccountRoute(.get, [".account/action"], .anyone, reads: .bytes) { try await $0.actionPage($1, applies: false) },
        AccountRoute(.post, [".account/action"], .anyone, reads: .bytes) { try await $0.actionPage($1, applies: true) },
        AccountRoute(.get, ["emulator/action"], .anyone, reads: .bytes) { try await $0.actionPage($1, applies: true) }.onlyDev,
        AccountRoute(.post, ["emulator/action"], .anyone, reads: .bytes) { try await $0.actionPage($1, applies: true) }.onlyDev,
    ]

    /// OAuth 2 for first-party programs (accounts contract §12). Errors have the format of OAuth 2.
    private static let oauth: [AccountRoute] = [
        AccountRoute(.post, [".oauth/token", "oauth2/token"], .anyone, reads: .bytes) { try await $0.grantOAuth($1) }.avoidingJSONErrors,
        AccountRoute(.post, [".oauth/revoke", "oauth2/revoke"], .anyone, reads: .bytes) { try $0.revokeOAuth($1) }.avoidingJSONErrors,
    ]

    /// Routes of administrators (accounts contract §10).
    private static let administration: [AccountRoute] = [
        .administration(.post, ["v1/projects/{p}/accounts"]) { try await $0.createAccount($1) },
        .administration(.post, ["v1/projects/{p}/accounts:lookup"]) { try $0.lookUpAccounts($1) },
        .administration(.post, ["v1/projects/{p}/accounts:update"]) { try await $0.updateAccount($1) },
        .administration(.post, ["v1/projects/{p}/accounts:delete"]) { try await $0.deleteAccount($1) },
        .administration(.post, ["v1/projects/{p}/accounts:sendOobCode"]) { try await $0.sendCode($1) },
        .administration(.get, ["v1/projects/{p}/accounts:batchGet"]) { try $0.listAccounts($1) },
        .administration(.post, ["v1/projects/{p}/accounts:batchDelete"]) { try await $0.deleteAccounts($1) },
        .administration(.post, ["v1/projects/{p}/accounts:batchCreate"], legacy: "uploadAccount") { try await $0.importAccounts($1) },
        .administration(.post, [], legacy: "downloadAccount") { try $0.listAccounts($1) },
        .administration(.post, ["v1/projects/{p}/accounts:query"]) { try $0.queryAccounts($1) },
        .administration(.post, ["v1/projects/{p}:createSessionCookie"]) { try await $0.createSessionCookie($1) },
        .administration(.get, ["v2/projects/{p}/config"]) { service, _ in service.configuration },
        // On other hubs the configuration comes only from the program's options.
        .administration(.patch, ["v2/projects/{p}/config"]) { try $0.replaceConfiguration($1) }.onlyDev,
    ]

    /// Routes for test suites on a development hub, without credentials (accounts contract §11).
    private static let development: [AccountRoute] = [
        .development(.delete, "accounts") { try await $0.deleteEveryAccount($1) },
        .development(.get, "oobCodes") { service, _ in try service.listCodes() },
        .development(.get, "config") { service, _ in service.configuration },
        .development(.patch, "config") { try $0.mergeConfiguration($1) },
        // No code is ever sent to a phone.
        .development(.get, "verificationCodes") { _, _ in AccountAnswer([.init("verificationCodes", [])]) },
    ]

    /// Operator requests outside the SDKs' contract: `vigla user` and `vigla token`. They name an account by its id, address or alias.
    private static let operation: [AccountRoute] = [
        .operation("find") { try $0.findAccount($1) },
        .operation("alias") { try $0.setAlias($1) },
        .operation("sessions") { try $0.listSessions($1) },
        .operation("end-session") { try $0.endSessions($1) },
        .operation("mint") { try await $0.mintToken($1) },
        .operation("rotate-key") { service, call in
            AccountAnswer([.init("kid", .string(try await service.rotateSigningKey(keepsOlder: try call.flag("endOlder") != true)))])
        },
    ]

    private static let unbuilt: [AccountRoute] = [
        .missing(.post, "\(AccountRoute.identity)/v1/accounts:sendVerificationCode", "\(AccountRoute.legacy)/sendVerificationCode"),
        .missing(.post, "\(AccountRoute.identity)/v1/accounts:signInWithPhoneNumber", "\(AccountRoute.legacy)/verifyPhoneNumber"),
        .missing(.get, "\(AccountRoute.identity)/v1/sessionCookiePublicKeys", "\(AccountRoute.legacy)/publicKeys"),
        .missing(.post, "\(AccountRoute.identity)/v2/accounts:revokeToken"),
        .missing(.post, "\(AccountRoute.identity)/v2/accounts/mfaEnrollment:start"),
        .missing(.post, "\(AccountRoute.identity)/v2/accounts/mfaEnrollment:finalize"),
        .missing(.post, "\(AccountRoute.identity)/v2/accounts/mfaEnrollment:withdraw"),
        .missing(.post, "\(AccountRoute.identity)/v2/accounts/mfaSignIn:start", "\(AccountRoute.identity)/v2/accounts/mfaSignIn:finalize"),
    ]
}

extension AccountRoute {
    /// - Parameters:
    ///   - paths: below `identitytoolkit.googleapis.com/`.
    ///   - legacyName: the name before v1.
    fileprivate static func administration(
        _ method: HTTPRequest.Method, _ paths: [String], legacy legacyName: String? = nil, _ operation: @escaping Operation
    ) -> AccountRoute {
        let all = paths.map { "\(identity)/\($0)" } + (legacyName.map { ["\(legacy)/\($0)"] } ?? [])
        return AccountRoute(method, all, .administrators, requiringOwnProject(operation))
    }

    fileprivate static func development(_ method: HTTPRequest.Method, _ name: String, _ operation: @escaping Operation) -> AccountRoute {
        AccountRoute(method, ["emulator/v1/projects/{p}/\(name)"], .anyone, requiringOwnProject(operation)).onlyDev
    }

    fileprivate static func operation(_ name: String, _ operation: @escaping Operation) -> AccountRoute {
        AccountRoute(.post, [".account/admin/\(name)"], .administrators, operation)
    }

    /// Selects between a client's operation and that of an administrator who acts as no user.
    /// - Parameter proofs: the members by which an administrator acts as a user. To change or delete, an administrator names the account: an ID
    ///   token sent along, for example by a page that is signed in, must not choose it.
    static func either(
        _ operation: @escaping Operation, actingBy proofs: [String], administrators other: @escaping Operation
    ) -> Operation {
        let other = requiringOwnProject(other)
        return { service, call in
            let actsAsUser = proofs.contains(where: call.has)
            return call.caller.isAdministrator && !actsAsUser ? try await other(service, call) : try await operation(service, call)
        }
    }

    /// A service has one project. Other projects have no accounts in it, and their apps would refuse its tokens.
    /// - Throws: PROJECT_NOT_FOUND
    private static func requiringOwnProject(_ operation: @escaping Operation) -> Operation {
        { service, call in
            let (asked, ours) = (try call.project ?? call.filled("targetProjectId") ?? service.settings.project, service.settings.project)
            guard asked == ours else {
                throw AccountError(
                    "PROJECT_NOT_FOUND",
                    "The accounts here are those of project \"\(ours)\". Ask for that, or start the hub with --project \(asked.prefix(64))")
            }
            return try await operation(service, call)
        }
    }
}

/// One operation of the service and its paths.
struct AccountRoute: Sendable {
    /// The callers that may use it; an administrator always may.
    enum Callers: Sendable {
        /// With an API key.
        case clients
        case administrators
        case anyone
    }

    /// The format of its body.
    enum Reading: Sendable {
        /// A JSON object; an empty body counts as an empty object.
        case json
        /// A JSON object, or a form whose fields become its members.
        case jsonOrForm
        /// Parsed by the operation.
        case bytes
    }

    typealias Operation = @Sendable (_ service: isolated AccountService, _ call: AccountCall) async throws -> AccountAnswer

    let method: HTTPRequest.Method
    /// Without a leading slash, percent-decoded, `{p}` for a project: `identitytoolkit.googleapis.com/v1/projects/{p}/accounts`.
    let paths: [String]
    let callers: Callers
    let reading: Reading
    /// Exists only on a development hub.
    var isDevOnly = false
    /// Errors must not be sent as JSON: a client would sign its user out (accounts contract §3.3).
    var avoidsJSONErrors = false
    let operation: Operation

    init(
        _ method: HTTPRequest.Method, _ paths: [String], _ callers: Callers, reads reading: Reading = .json,
        _ operation: @escaping Operation
    ) {
        self.method = method
        self.paths = paths
        self.callers = callers
        self.reading = reading
        self.operation = operation
    }

    static let identity = "identitytoolkit.googleapis.com"
    /// The base path that Apple's and Android's SDKs use (accounts contract §1).
    static let legacy = "www.googleapis.com/identitytoolkit/v3/relyingparty"

    /// A client endpoint with its v1 name and its earlier name.
    /// - Parameters:
    ///   - proofs: see `either`.
    ///   - other: the operation of an administrator who acts as no user.
    static func client(
        _ name: String, _ legacyName: String, actingBy proofs: [String] = ["idToken", "oobCode"], administrators other: Operation? = nil,
        _ operation: @escaping Operation
    ) -> AccountRoute {
        let paths = ["\(identity)/v1/\(name)", "\(legacy)/\(legacyName)"]
        return AccountRoute(.post, paths, .clients, other.map { either(operation, actingBy: proofs, administrators: $0) } ?? operation)
    }

    /// A known operation that is not implemented (accounts contract §2.1).
    static func missing(_ method: HTTPRequest.Method, _ paths: String...) -> AccountRoute {
        AccountRoute(method, paths, .clients, reads: .bytes) { _, _ in throw AccountError.notBuilt }
    }

    var avoidingJSONErrors: AccountRoute {
        var route = self
        route.avoidsJSONErrors = true
        return route
    }

    var onlyDev: AccountRoute {
        var route = self
        route.isDevOnly = true
        return route
    }

    /// The path of a request in the form of routes, and its project; nil also for `-`, which means the only project.
    static func path(of target: HTTPTarget) -> (path: String, project: String?) {
        var segments = target.segments
        guard let at = segments.firstIndex(of: "projects"), at + 1 < segments.count else { return (segments.joined(separator: "/"), nil) }
        // `projects/p/accounts` and `projects/p:createSessionCookie`
        let named = segments[at + 1]
        let project = named.prefix { $0 != ":" }
        segments[at + 1] = "{p}" + named.dropFirst(project.count)
        return (segments.joined(separator: "/"), project == "-" ? nil : String(project))
    }
}
