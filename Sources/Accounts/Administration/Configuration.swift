import HTTPTypes
import JSONTree
import Tokens
import WireProtocols

/// The configuration that clients can read (accounts contract §5.2, §6.10).
extension AccountService {
    /// `v1/projects`
    func projectConfiguration() -> AccountAnswer {
        AccountAnswer([
            .init("projectId", .string(settings.projectNumber)),
            .init("authorizedDomains", .array(settings.linkHosts.map(JSONValue.string))),
        ])
    }

    /// `v2/passwordPolicy`, in the only schema that the JS SDK reads.
    func passwordPolicy() -> AccountAnswer {
        AccountAnswer([
            .init(
                "customStrengthOptions",
                [
                    "minPasswordLength": .int(Int64(settings.passwords.minLength)),
                    "maxPasswordLength": .int(Int64(settings.passwords.maxLength)),
                ]),
            .init("allowedNonAlphanumericCharacters", .array(Self.punctuation)), .init("enforcementState", "OFF"),
            .init("forceUpgradeOnSignin", false),
            .init("schemaVersion", 1),
        ])
    }

    /// All ASCII punctuation; other characters are allowed as well.
    private static let punctuation: [JSONValue] = "^$*.[]{}()?\"!@#%&/\\,><':;|_~`-+=".map { .string(String($0)) }

    /// `/.well-known/jwks.json`: the public keys of ID tokens; verifiers may cache them.
    func publicKeys() -> AccountAnswer {
        AccountAnswer(.ok, Self.document, tokens.keys.jwks)
    }

    /// `/.well-known/openid-configuration`: the location of those keys, and OAuth 2 (OpenID Connect Discovery 1.0 §3). There is no authorization
    /// endpoint.
    func discovery() -> AccountAnswer {
        let document: [JSONValue.Member] = [
            .init("issuer", .string(IdentityClaims.issuer(settings.project))),
            .init("jwks_uri", .string(settings.link("/.well-known/jwks.json"))),
            .init("response_types_supported", ["id_token"]), .init("subject_types_supported", ["public"]),
            .init("id_token_signing_alg_values_supported", [.string(settings.signingAlgorithm.rawValue)]),
        ]
        return AccountAnswer(.ok, Self.document, JSONValue.object(document + oauthConfiguration).bytes)
    }

    private static let document: HTTPFields = [.contentType: "application/json; charset=utf-8", .cacheControl: "public, max-age=300"]
}

extension AccountService {
    /// The settings that the admin SDKs know (accounts contract §10, §11).
    var configuration: AccountAnswer {
        AccountAnswer([
            .init("signIn", ["allowDuplicateEmails": false]),
            .init("emailPrivacyConfig", ["enableImprovedEmailPrivacy": .bool(hidesAccounts)]),
        ])
    }

    /// Replaces the fields in the body; the others stay. Lasts until the hub stops.
    func mergeConfiguration(_ call: AccountCall) throws -> AccountAnswer {
        try configure(
            duplicates: try call.member("signIn", "allowDuplicateEmails"),
            hiding: try call.member("emailPrivacyConfig", "enableImprovedEmailPrivacy"))
        return configuration
    }

    /// Sets the fields that `updateMask` names, or all without a mask. A field that the body omits is set to its default.
    func replaceConfiguration(_ call: AccountCall) throws -> AccountAnswer {
        let mask = call.request.target.value("updateMask").map { $0.split(separator: ",") }
        func isSelected(_ group: String, _ name: String) -> Bool { mask?.contains { $0 == group || $0 == "\(group).\(name)" } ?? true }
        let duplicates = try call.member("signIn", "allowDuplicateEmails")
        let hiding = try call.member("emailPrivacyConfig", "enableImprovedEmailPrivacy")
        try configure(
            duplicates: isSelected("signIn", "allowDuplicateEmails") ? duplicates : nil,
            hiding: isSelected("emailPrivacyConfig", "enableImprovedEmailPrivacy") ? hiding ?? settings.hidesAccounts : nil)
        return configuration
    }

    private func configure(duplicates: Bool?, hiding: Bool?) throws(AccountError) {
        guard duplicates != true else {
            throw AccountError("OPERATION_NOT_ALLOWED", "Here every address is one account's, allowDuplicateEmails stays false")
        }
        if let hiding { hidesAccounts = hiding }
    }
}

extension AccountCall {
    /// A flag in an object of the body; nil if either is absent.
    fileprivate func member(_ group: String, _ name: String) throws(AccountError) -> Bool? {
        guard let object = body[group], !object.isNull else { return nil }
        guard object.members != nil else { throw .invalid(group, "an object is expected") }
        return try about(object).flag(name)
    }
}

extension AccountService {
    /// The allowed lifetime of a session cookie in seconds; the longest is the default (accounts contract §5.3).
    private static let cookieSeconds: ClosedRange<Int64> = 300...1_209_600

    /// `projects/{p}:createSessionCookie`: a long-lived token for a web server's cookie, for the user of an ID token. It is not an ID token: neither
    /// the database nor these endpoints accept it. The web server verifies it with our keys (accounts contract §10).
    func createSessionCookie(_ call: AccountCall) async throws -> AccountAnswer {
        let lifetime = call.has("validDuration") ? call.body["validDuration"]?.int : Self.cookieSeconds.upperBound
        guard let lifetime, Self.cookieSeconds ~= lifetime else { throw AccountError("INVALID_DURATION") }
        let token = try idToken(call)
        let user = try store.read { try $0.user(of: token) }
        let claims = IdentityClaims(user.account, user.session, now: nowSeconds, lifetime: Int(lifetime))
        let payload = claims.payload(project: settings.project, issuer: "https://session.firebase.google.com/\(settings.project)")
        return AccountAnswer([.init("sessionCookie", .string(try tokens.keys.sign(payload)))])
    }
}

extension AccountService {
    /// Removes all accounts between two tests. Mailed codes stay listed, although most no longer work.
    func deleteEveryAccount(_ call: AccountCall) async throws -> AccountAnswer {
        let ids = try commit(call) { write in
            try write.transaction.detachCodes()
            let ids = try write.transaction.accountIDs()
            for id in ids { try write.delete(id) }
            return ids
        }
        return await answer(AccountAnswer([]), behindRemovalOf: ids)
    }

    /// The codes mailed since the hub started that are still pending, oldest first.
    func listCodes() throws -> AccountAnswer {
        let now = now()
        let pending = try store.read { transaction in
            try knownCodes.all.filter { try now < $0.code.expiresAt && transaction.code(hash: SecretHash.of($0.secret)) != nil }
        }
        let codes: [JSONValue] = pending.map { known in
            var entry: [JSONValue.Member] = [.init("email", .string(known.code.email))]
            entry.add("newEmail", known.code.newEmail)
            entry.add("requestType", known.code.kind.rawValue)
            entry.add("oobCode", known.secret)
            entry.add("oobLink", known.link)
            return .object(entry)
        }
        return AccountAnswer([.init("oobCodes", .array(codes))])
    }
}
