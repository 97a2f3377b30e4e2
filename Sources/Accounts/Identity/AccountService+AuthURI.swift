import JSONTree

extension AccountService {
    /// `accounts:createAuthUri`: how the user of an address can sign in (accounts contract §6.9). With accounts hidden it says nothing.
    func createAuthURI(_ call: AccountCall) async throws -> AccountAnswer {
        guard let identifier = try call.filled("identifier") else { throw AccountError("MISSING_IDENTIFIER") }
        guard let continueURI = try call.filled("continueUri") else { throw AccountError("MISSING_CONTINUE_URI") }
        guard let email = EmailAddress(identifier) else { throw AccountError("INVALID_IDENTIFIER") }
        guard ContinueURL(continueURI) != nil else { throw AccountError("INVALID_CONTINUE_URI") }
        var members: [JSONValue.Member] = [.init("sessionId", .string(try call.filled("sessionId") ?? RandomName.make(27)))]
        if !hidesAccounts {
            let accounts = try store.read { try $0.accounts(withAddress: email.text) }
            members.add("registered", .bool(!accounts.isEmpty))
            members.add("allProviders", .array(Self.unique(accounts.flatMap(\.providerNames)).map(JSONValue.string)))
            members.add("signinMethods", .array(Self.unique(accounts.flatMap { $0.signInMethods(for: email) }).map(JSONValue.string)))
        }
        return AccountAnswer(kind: "CreateAuthUriResponse", members)
    }

    private static func unique(_ names: [String]) -> [String] {
        names.enumerated().filter { names.firstIndex(of: $0.element) == $0.offset }.map(\.element)
    }
}

extension Account {
    /// `password`, `emailLink`, and services at which the user has that address.
    fileprivate func signInMethods(for address: EmailAddress) -> [String] {
        var methods: [String] = []
        if email == address.text {
            if passwordHash != nil { methods.append("password") }
            if hasEmailLink { methods.append("emailLink") }
        }
        return methods + providers.filter { $0.email == address.text || email == address.text }.map(\.id)
    }
}
