import HTTPTypes

/// Every route of the service. Each part of the target has its rows; here are the clients' (accounts contract §2.1).
enum AccountRoutes {
    static let all = clients + pages + small + administration + development + oauth + operation + unbuilt

    static let byPath: [String: [AccountRoute]] = {
        var byPath: [String: [AccountRoute]] = [:]
        for route in all { for path in route.paths { byPath[path, default: []].append(route) } }
        return byPath
    }()

    private static let clients: [AccountRoute] = [
        .client("accounts:signUp", "signupNewUser", administrators: { try await $0.createAccount($1) }) { try await $0.signUp($1) },
        .client("accounts:signInWithPassword", "verifyPassword") { try await $0.signInWithPassword($1) },
        .client("accounts:lookup", "getAccountInfo", administrators: { try $0.lookUpAccounts($1) }) { try await $0.lookUp($1) }.neverFails,
        .client("accounts:update", "setAccountInfo", administrators: { try await $0.updateAccount($1) }) { try await $0.update($1) },
        .client("accounts:delete", "deleteAccount", administrators: { try $0.deleteAccount($1) }) { try await $0.delete($1) },
        .client("accounts:sendOobCode", "getOobConfirmationCode") { try await $0.sendCode($1) },
        .client("accounts:resetPassword", "resetPassword") { try await $0.resetPassword($1) },
        .client("accounts:signInWithEmailLink", "emailLinkSignin") { try await $0.signInWithEmailLink($1) },
        .client("accounts:signInWithIdp", "verifyAssertion") { try await $0.signInWithIdp($1) },
        .client("accounts:signInWithCustomToken", "verifyCustomToken") { try await $0.signInWithCustomToken($1) },
        .client("accounts:createAuthUri", "createAuthUri") { try await $0.createAuthURI($1) },
        AccountRoute(.post, ["securetoken.googleapis.com/v1/token"], .clients, reads: .jsonOrForm) { try await $0.refresh($1) }.neverFails,
    ]

    private static let small: [AccountRoute] = [
        AccountRoute(.get, ["\(AccountRoute.identity)/v1/projects", "\(AccountRoute.legacy)/getProjectConfig"], .clients) { service, _ in
            service.projectConfiguration()
        },
        AccountRoute(.get, ["\(AccountRoute.identity)/v2/passwordPolicy"], .clients) { service, _ in service.passwordPolicy() },
        // There is no reCAPTCHA; the SDKs ask all the same.
        AccountRoute(.get, ["\(AccountRoute.identity)/v2/recaptchaConfig"], .clients) { _, _ in
            AccountAnswer([.init("recaptchaEnforcementState", [])])
        },
        AccountRoute(.get, ["\(AccountRoute.identity)/v1/recaptchaParams", "\(AccountRoute.legacy)/getRecaptchaParam"], .clients) { _, _ in
            AccountAnswer([.init("recaptchaSiteKey", "none"), .init("recaptchaStoken", "none")])
        },
        AccountRoute(.get, [".well-known/jwks.json"], .anyone) { service, _ in service.publicKeys() },
        AccountRoute(.get, [".well-known/openid-configuration"], .anyone) { service, _ in service.discovery() },
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
