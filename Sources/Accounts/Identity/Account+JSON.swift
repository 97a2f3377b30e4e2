import JSONTree

extension Account {
    /// Stands for a password's hash, which is never shown: its presence says that there is one (accounts contract §4).
    static let redactedHash = "UkVEQUNURUQ="

    /// `providerUserInfo`: what can be signed in with.
    var providerEntries: JSONValue {
        var entries: [JSONValue] = []
        if hasPasswordProvider, let email {
            var entry: [JSONValue.Member] = [
                .init("providerId", "password"), .init("rawId", .string(email)), .init("federatedId", .string(email)),
            ]
            entry.add("email", email)
            entry.add("displayName", displayName)
            entry.add("photoUrl", photoURL)
            entries.append(.object(entry))
        }
        for provider in providers {
            var entry: [JSONValue.Member] = [
                .init("providerId", .string(provider.id)), .init("rawId", .string(provider.rawID)),
                .init("federatedId", .string(provider.rawID)),
            ]
            entry.add("email", provider.email)
            entry.add("displayName", provider.displayName)
            entry.add("photoUrl", provider.photoURL)
            entry.add("screenName", provider.screenName)
            entries.append(.object(entry))
        }
        if let phoneNumber {
            let number = JSONValue.string(phoneNumber)
            entries.append(["providerId": "phone", "rawId": number, "federatedId": number, "phoneNumber": number])
        }
        return .array(entries)
    }

    /// Names of what can be signed in with: `password`, `google.com`, …
    var providerNames: [String] {
        (hasPasswordProvider ? ["password"] : []) + providers.map(\.id) + (phoneNumber == nil ? [] : ["phone"])
    }

    /// An entry of `users` (accounts contract §6.3). Times in ms and s are strings, as Apple's SDK reads nothing else.
    /// - Parameter forAdministrator: with claims.
    func entry(forAdministrator: Bool) -> JSONValue {
        var entry: [JSONValue.Member] = [.init("localId", .string(id))]
        entry.add("email", email)
        if email != nil { entry.add("emailVerified", .bool(isEmailVerified)) }
        entry.add("displayName", displayName)
        entry.add("photoUrl", photoURL)
        entry.add("phoneNumber", phoneNumber)
        if passwordHash != nil { entry.add("passwordHash", Self.redactedHash) }
        entry.add("passwordUpdatedAt", passwordUpdatedAt.map(JSONValue.int))
        entry.add("providerUserInfo", providerEntries)
        entry.add("validSince", String(validSince))
        entry.add("disabled", .bool(isDisabled))
        entry.add("lastLoginAt", lastLoginAt.map(String.init))
        entry.add("createdAt", String(createdAt))
        entry.add("lastRefreshAt", lastRefreshAt.map(RFC3339.text))
        if hasCustomAuth { entry.add("customAuth", true) }
        if hasEmailLink { entry.add("emailLinkSignin", true) }
        entry.add("initialEmail", initialEmail)
        if forAdministrator { entry.add("customAttributes", customClaims) }
        return .object(entry)
    }
}
