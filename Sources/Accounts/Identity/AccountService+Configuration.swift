import HTTPTypes
import JSONTree
import Tokens

/// What clients are told of the service itself (accounts contract §5.2, §6.10).
extension AccountService {
    /// `v1/projects`
    func projectConfiguration() -> AccountAnswer {
        AccountAnswer([
            .init("projectId", .string(settings.projectNumber)),
            .init("authorizedDomains", .array(settings.linkHosts.map(JSONValue.string))),
        ])
    }

    /// `v2/passwordPolicy`, in the one schema that JS reads.
    func passwordPolicy() -> AccountAnswer {
        AccountAnswer([
            .init(
                "customStrengthOptions",
                [
                    "minPasswordLength": .int(Int64(settings.passwords.minLength)),
                    "maxPasswordLength": .int(Int64(settings.passwords.maxBytes)),
                ]),
            .init("allowedNonAlphanumericCharacters", .array(Self.punctuation)), .init("enforcementState", "OFF"),
            .init("forceUpgradeOnSignin", false),
            .init("schemaVersion", 1),
        ])
    }

    /// All of ASCII; others may be used as well.
    private static let punctuation: [JSONValue] = "^$*.[]{}()?\"!@#%&/\\,><':;|_~`-+=".map { .string(String($0)) }

    /// `/.well-known/jwks.json`: the keys of ID tokens, which verifiers may keep for a while.
    func publicKeys() -> AccountAnswer {
        AccountAnswer(.ok, Self.document, tokens.keys.jwks)
    }

    /// `/.well-known/openid-configuration`: where those keys are, and OAuth 2 (OpenID Connect Discovery 1.0 §3). There is no
    /// authorization endpoint.
    func discovery() -> AccountAnswer {
        let document: [JSONValue.Member] = [
            .init("issuer", .string(IdentityClaims.issuer(settings.project))),
            .init("jwks_uri", .string(settings.linkRoot + "/.well-known/jwks.json")),
            .init("response_types_supported", ["id_token"]), .init("subject_types_supported", ["public"]),
            .init("id_token_signing_alg_values_supported", [.string(settings.signingAlgorithm.rawValue)]),
        ]
        return AccountAnswer(.ok, Self.document, JSONValue.object(document + oauthConfiguration).bytes)
    }

    private static let document: HTTPFields = [.contentType: "application/json; charset=utf-8", .cacheControl: "public, max-age=300"]
}
