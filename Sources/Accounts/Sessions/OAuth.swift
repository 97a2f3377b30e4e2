import HTTPTypes
import JSONTree
import Tokens
import WireProtocols

extension AccountService {
    /// `/.oauth/token`: the password grant, if allowed, and the refresh grant (RFC 6749 §4.3, §6).
    func grantOAuth(_ call: AccountCall) async throws -> AccountAnswer {
        do { return try await grant(try OAuthRequest(call.request), call) } catch let fault as OAuthFault {
            return fault.answer
        } catch let error as AccountError {
            return OAuthFault(error).answer
        }
    }

    private func grant(_ request: OAuthRequest, _ call: AccountCall) async throws -> AccountAnswer {
        let opened: OpenedSession
        switch try request.required("grant_type") {
        case "refresh_token":
            let (token, scope) = (try request.required("refresh_token"), try Self.scope(request))
            opened = try await resume(token, call, rotates: settings.refreshRotation != .never)
            return Self.granted(try await issue(opened), scope)
        case "password" where settings.allowsPasswordGrant && settings.allowsPasswords:
            let (name, password, scope) = (try request.required("username"), try request.required("password"), try Self.scope(request))
            // An alias contains no @.
            let key: AccountKey = EmailAddress(name).map { .email($0.text) } ?? .alias(name.lowercased())
            opened = try await signIn(key, typed: name.lowercased(), password: password, call)
            return Self.granted(try await issue(opened), scope)
        default: throw OAuthFault(.unsupportedGrantType, "The grants of this server are \(grantTypes.joined(separator: " and ")).")
        }
    }

    private nonisolated var grantTypes: [String] {
        settings.allowsPasswordGrant && settings.allowsPasswords ? ["password", "refresh_token"] : ["refresh_token"]
    }

    /// Accepted scopes; they do not change the tokens of this server.
    private static let scopes: Set<String> = ["openid", "email", "profile", "offline_access"]

    private static func scope(_ request: OAuthRequest) throws(OAuthFault) -> String? {
        guard let asked = request["scope"] else { return nil }
        guard asked.split(separator: " ").allSatisfy({ scopes.contains(String($0)) }) else {
            throw OAuthFault(.invalidScope, "The scopes of this server are \(scopes.sorted().joined(separator: ", ")).")
        }
        return asked
    }

    private static func granted(_ tokens: IssuedTokens, _ scope: String?) -> AccountAnswer {
        var members: [JSONValue.Member] = [
            .init("access_token", .string(tokens.idToken)), .init("token_type", "Bearer"),
            .init("expires_in", .int(Int64(tokens.lifetime))),
            .init("refresh_token", .string(tokens.refreshToken)),
        ]
        members.add("scope", scope)
        if scope?.split(separator: " ").contains("openid") == true { members.add("id_token", tokens.idToken) }
        return AccountAnswer(members)
    }

    /// `/.oauth/revoke`: signs out (RFC 7009). Ends the session of a refresh token or an ID token. Other tokens have no session.
    func revokeOAuth(_ call: AccountCall) throws -> AccountAnswer {
        let text: String
        do throws(OAuthFault) { text = try OAuthRequest(call.request).required("token") } catch { return error.answer }
        let idToken = try? tokens.check(text, leeway: settings.tokenLeewaySeconds)
        let hash = RefreshToken(text).sessionHash
        try commit(call) { write in
            let session =
                if let id = idToken?.sessionID { try write.transaction.session(id: id) } else {
                    try write.transaction.session(tokenHash: hash)?.session
                }
            guard let session else { return }
            try write.end(session)
        }
        return AccountAnswer(.ok, [.cacheControl: "no-store"])
    }

    /// The OAuth members of the discovery document.
    nonisolated var oauthConfiguration: [JSONValue.Member] {
        func texts(_ list: [String]) -> JSONValue { .array(list.map(JSONValue.string)) }
        return [
            .init("token_endpoint", .string(settings.link("/.oauth/token"))),
            .init("revocation_endpoint", .string(settings.link("/.oauth/revoke"))),
            .init("grant_types_supported", texts(grantTypes)), .init("scopes_supported", texts(Self.scopes.sorted())),
            .init("token_endpoint_auth_methods_supported", ["none"]), .init("revocation_endpoint_auth_methods_supported", ["none"]),
        ]
    }
}

/// A request to an OAuth 2 endpoint, parsed as RFC 6749 §3.2 requires: a form with each parameter once, and no parameter in the URL, where it
/// would be logged.
struct OAuthRequest: Sendable {
    private let form: FormFields

    private static let parameters: Set<String> = [
        "grant_type", "username", "password", "refresh_token", "scope", "client_id", "client_secret", "token", "token_type_hint", "code",
    ]

    init(_ request: HTTPInboundRequest) throws(OAuthFault) {
        if let scheme = request.fields[.authorization]?.split(separator: " ").first, scheme.lowercased() == "basic" {
            throw OAuthFault(.invalidClient, "No client has a secret here; leave out Authorization.")
        }
        guard request.fields[.contentType]?.lowercased().hasPrefix("application/x-www-form-urlencoded") == true else {
            throw OAuthFault(.invalidRequest, "The body must be application/x-www-form-urlencoded.")
        }
        if let item = request.target.query.first(where: { Self.parameters.contains($0.name) }) {
            throw OAuthFault(.invalidRequest, "The parameter \(item.name) belongs into the body.")
        }
        guard let form = FormFields(request.body) else { throw OAuthFault(.invalidRequest, "The body is no form in UTF-8.") }
        var names: Set<String> = []
        for item in form.items where !names.insert(item.name).inserted {
            throw OAuthFault(.invalidRequest, "The parameter \(OAuthFault.printable(item.name)) is sent more than once.")
        }
        self.form = form
    }

    /// A parameter; nil if absent or empty, which is equivalent (RFC 6749 §3.1).
    subscript(name: String) -> String? { form[name].flatMap { $0.isEmpty ? nil : $0 } }

    /// - Throws: `invalid_request`.
    func required(_ name: String) throws(OAuthFault) -> String {
        guard let value = self[name] else { throw OAuthFault(.invalidRequest, "The parameter \(name) is missing.") }
        return value
    }
}

/// An error of an OAuth 2 endpoint (RFC 6749 §5.2). Its format differs from that of the identity endpoints, and is never used there.
///
///     {"error":"invalid_grant","error_description":"…"}
struct OAuthFault: Error, Equatable {
    enum Code: String {
        case invalidRequest = "invalid_request"
        case invalidClient = "invalid_client"
        case invalidGrant = "invalid_grant"
        case unsupportedGrantType = "unsupported_grant_type"
        case invalidScope = "invalid_scope"
    }

    let code: Code
    let text: String

    init(_ code: Code, _ text: String) {
        self.code = code
        self.text = text
    }

    /// The error for a password or a refresh token. It does not reveal whether the account or the password was wrong, but states other reasons.
    init(_ error: AccountError) {
        switch error.code {
        case "TOO_MANY_ATTEMPTS_TRY_LATER": self.init(.invalidGrant, "Too many attempts. Try again later.")
        case "USER_DISABLED": self.init(.invalidGrant, "The account is disabled.")
        case "TOKEN_EXPIRED", "USER_NOT_FOUND", "INVALID_REFRESH_TOKEN":
            self.init(.invalidGrant, "The refresh token is not valid, or no longer.")
        default: self.init(.invalidGrant, "The user name or the password is wrong.")
        }
    }

    var answer: AccountAnswer {
        var answer = AccountAnswer(
            code == .invalidClient ? .unauthorized : .badRequest,
            json: JSONValue.object([.init("error", .string(code.rawValue)), .init("error_description", .string(text))]).bytes)
        if code == .invalidClient { answer.fields[.wwwAuthenticate] = "Basic realm=\"vigla\"" }
        return answer
    }

    /// Descriptions contain printable ASCII without quotes (RFC 6749 §5.2).
    static func printable(_ text: String) -> String {
        func isPrintable(_ byte: UInt8) -> Bool { byte > 0x20 && byte < 0x7F && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\") }
        return String(decoding: text.utf8.prefix(40).map { isPrintable($0) ? $0 : UInt8(ascii: "?") }, as: UTF8.self)
    }
}
