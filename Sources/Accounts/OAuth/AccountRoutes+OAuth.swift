import HTTPTypes

extension AccountRoutes {
    /// OAuth 2 for programs of one's own, and what verifiers of ID tokens read (accounts contract §5.2, §12).
    static let oauth: [AccountRoute] = [
        AccountRoute(.post, [".oauth/token", "oauth2/token"], .everybody, reads: .bytes) { try await $0.grantOAuth($1) }.neverFails,
        AccountRoute(.post, [".oauth/revoke", "oauth2/revoke"], .everybody, reads: .bytes) { try $0.revokeOAuth($1) }.neverFails,
        AccountRoute(.get, [".well-known/jwks.json"], .everybody, reads: .bytes) { service, _ in .published(service.jwks) },
        AccountRoute(.get, [".well-known/openid-configuration"], .everybody, reads: .bytes) { service, _ in .published(service.discovery) },
    ]
}

extension AccountAnswer {
    /// Seconds that others may keep the keys. A new key signs at once, and whoever meets its name for the first time fetches anew.
    private static let keptSeconds = 300

    fileprivate static func published(_ json: [UInt8]) -> AccountAnswer {
        AccountAnswer(.ok, [.contentType: "application/json; charset=utf-8", .cacheControl: "public, max-age=\(keptSeconds)"], json)
    }
}
