import HTTPTypes
import JSONTree
import Tokens

extension AccountService {
    /// `/.oauth/token`: the password grant, where it is allowed, and the refresh grant (RFC 6749 §4.3, §6).
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
            opened = try resume(token, call)
            return Self.granted(try await issue(opened), scope)
        case "password" where settings.allowsPasswordGrant && settings.allowsPasswords:
            let (name, password, scope) = (try request.required("username"), try request.required("password"), try Self.scope(request))
            // An alias has no @ in it.
            let key: AccountKey = EmailAddress(name).map { .email($0.text) } ?? .alias(name.lowercased())
            opened = try await signIn(key, typed: name.lowercased(), password: password, call)
            return Self.granted(try await issue(opened), scope)
        default: throw OAuthFault(.unsupportedGrantType, "The grants of this server are \(grantTypes.joined(separator: " and ")).")
        }
    }

    private nonisolated var grantTypes: [String] {
        settings.allowsPasswordGrant && settings.allowsPasswords ? ["password", "refresh_token"] : ["refresh_token"]
    }

    /// What tokens of this server say anyway.
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

    /// `/.oauth/revoke`: signing out (RFC 7009). Ends the session of a refresh token or of an ID token; what is neither is over already.
    func revokeOAuth(_ call: AccountCall) throws -> AccountAnswer {
        let text: String
        do throws(OAuthFault) { text = try OAuthRequest(call.request).required("token") } catch { return error.answer }
        let idToken = try? tokens.check(text, leeway: settings.tokenLeewaySeconds)
        let hash = SecretHash.of(text)
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

    /// What the discovery document says of it.
    nonisolated var oauthConfiguration: [JSONValue.Member] {
        func texts(_ list: [String]) -> JSONValue { .array(list.map(JSONValue.string)) }
        return [
            .init("token_endpoint", .string(settings.linkRoot + "/.oauth/token")),
            .init("revocation_endpoint", .string(settings.linkRoot + "/.oauth/revoke")),
            .init("grant_types_supported", texts(grantTypes)), .init("scopes_supported", texts(Self.scopes.sorted())),
            .init("token_endpoint_auth_methods_supported", ["none"]), .init("revocation_endpoint_auth_methods_supported", ["none"]),
        ]
    }
}
