import HTTPTypes

extension AccountRoutes {
    /// OAuth 2 for programs of one's own (accounts contract §12). Errors have the shape of OAuth 2 there.
    static let oauth: [AccountRoute] = [
        AccountRoute(.post, [".oauth/token", "oauth2/token"], .anyone, reads: .bytes) { try await $0.grantOAuth($1) }.neverFails,
        AccountRoute(.post, [".oauth/revoke", "oauth2/revoke"], .anyone, reads: .bytes) { try $0.revokeOAuth($1) }.neverFails,
    ]
}
