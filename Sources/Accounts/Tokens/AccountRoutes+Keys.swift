import HTTPTypes

extension AccountRoutes {
    /// The keys of ID tokens, for everybody who checks them (accounts contract §5.2).
    static let keys: [AccountRoute] = [
        AccountRoute(.get, [".well-known/jwks.json"], .everybody, reads: .bytes) { service, _ in
            AccountAnswer(
                .ok, [.contentType: "application/jwk-set+json", .cacheControl: "public, max-age=\(service.settings.keySetSeconds)"], service.jwks)
        }
    ]
}
