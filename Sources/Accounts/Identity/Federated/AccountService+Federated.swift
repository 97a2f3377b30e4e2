import JSONTree
import Tokens

extension AccountService {
    /// `accounts:signInWithIdp`: by the ID token of another service (accounts contract §7).
    func signInWithIdp(_ call: AccountCall) async throws -> AccountAnswer {
        let request = try IdpRequest(call)
        let (wantsCredential, creates) = (try call.flag("returnIdpCredential") ?? false, try call.flag("autoCreate") ?? true)
        let token = call.has("idToken") ? try idToken(call) : nil
        guard let idToken = request.idToken else {
            throw AccountError("INVALID_IDP_RESPONSE", "There is no id_token; an access token alone does not say whom it is meant for.")
        }
        let identity = try await federated.verify(provider: request.provider, idToken: idToken, nonce: request.nonce)
        guard Account.isName(identity.subject) else {
            throw AccountError("INVALID_IDP_RESPONSE", "The ID token is refused: its sub has control characters.")
        }
        var shown = Self.credential(identity, request)
        do {
            let result = try commit(call) { write in
                try write.receive(identity, token) {
                    // Not USER_NOT_FOUND: a re-authentication as another user would sign the user out (accounts contract §3.3).
                    guard creates else { throw AccountError("EMAIL_NOT_FOUND") }
                    guard settings.allowsSignUp else { throw AccountError("ADMIN_ONLY_OPERATION") }
                    try admitSignUp(from: call.peer)
                    return request.name
                }
            }
            switch result {
            case .confirm(let account):
                // The token was of no use: after a sign-in of the other kind it is shown again, to be linked.
                await federated.release(identity)
                shown.add("needConfirmation", true)
                shown.add("email", account.email)
                // A claim to the address without proof does not tell whose account it is and how its user signs in.
                if identity.isEmailVerified || !hidesAccounts {
                    shown.add("localId", account.id)
                    shown.add("verifiedProvider", .array(account.providerNames.map(JSONValue.string)))
                }
                return AccountAnswer(kind: "VerifyAssertionResponse", shown)
            case .opened(let opened, let isNew, let isRecycled):
                let tokens = try await issue(opened)
                shown.add("localId", opened.account.id)
                shown.add("email", opened.account.email)
                if opened.account.email != nil { shown.add("emailVerified", .bool(opened.account.isEmailVerified)) }
                shown.add("displayName", opened.account.displayName)
                shown.add("photoUrl", opened.account.photoURL)
                shown.add("isNewUser", .bool(isNew))
                if isRecycled { shown.add("emailRecycled", true) }
                return AccountAnswer(kind: "VerifyAssertionResponse", shown + tokens.members)
            }
        } catch let error as AccountError {
            await federated.release(identity)
            guard wantsCredential, ["FEDERATED_USER_ID_ALREADY_LINKED", "EMAIL_EXISTS"].contains(error.code) else { throw error }
            shown.add("email", identity.email)
            shown.add("errorMessage", error.message)
            return AccountAnswer(kind: "VerifyAssertionResponse", shown)
        }
    }

    /// What was verified, in the words of the answer (accounts contract §7.4).
    private static func credential(_ identity: FederatedIdentity, _ request: IdpRequest) -> [JSONValue.Member] {
        var members: [JSONValue.Member] = [
            .init("providerId", .string(identity.provider)), .init("federatedId", .string(identity.federatedID)),
            .init("rawUserInfo", .string(identity.rawUserInfo)),
        ]
        members.add("oauthIdToken", request.idToken)
        members.add("oauthAccessToken", request.accessToken)
        members.add("fullName", identity.name ?? request.name)
        members.add("firstName", identity.givenName)
        members.add("lastName", identity.familyName)
        return members
    }

}

/// What has become of an identity.
private enum Received {
    case opened(OpenedSession, isNew: Bool, isRecycled: Bool)
    case confirm(Account)
}

extension AccountWrite {
    /// - Parameters:
    ///   - token: the user who is signed in already.
    ///   - admitNew: throws where no account may be made; returns the name of a user whom the service itself does not name.
    fileprivate func receive(_ identity: FederatedIdentity, _ token: VerifiedToken?, admitNew: () throws -> String?) throws -> Received {
        let address = identity.email.flatMap(EmailAddress.init)
        let user = try token.map { try transaction.user(of: $0) }
        let known = try transaction.account(.provider(identity.provider, rawID: identity.subject))
        let holder = try address.flatMap { try transaction.account(.email($0.text)) }
        let outcome = FederatedOutcome(
            isSignedIn: user != nil, isKnown: known != nil,
            addressOf: holder == nil ? .none : holder?.id == user?.account.id ? .own : .other,
            // A development hub believes what it is told.
            isBelieved: identity.isAuthoritative || settings.isDev && identity.isEmailVerified)
        let entry = LinkedProvider(identity, address)
        switch (outcome, known, holder, user) {
        case (.alreadyLinked, _, _, _): throw AccountError("FEDERATED_USER_ID_ALREADY_LINKED")
        case (.addressTaken, _, _, _): throw AccountError("EMAIL_EXISTS")
        case (.link, _, _, let user?):
            return .opened(try link(entry, identity, address, user), isNew: false, isRecycled: false)
        case (.signIn, let account?, _, _):
            guard !account.isDisabled else { throw AccountError("USER_DISABLED") }
            return .opened(try signIn(account, as: entry), isNew: false, isRecycled: false)
        case (.join, _, let account?, _): return try join(account, entry)
        case (.confirm, _, let account?, _): return .confirm(account)
        default: return .opened(try create(entry, identity, address, name: try admitNew()), isNew: true, isRecycled: false)
        }
    }

    private func create(
        _ entry: LinkedProvider, _ identity: FederatedIdentity, _ address: EmailAddress?, name: String?
    ) throws -> OpenedSession {
        var account = Account(id: RandomName.accountID(), createdAt: now())
        account.email = address?.text
        account.isEmailVerified = address != nil && identity.isEmailVerified
        account.displayName = entry.displayName ?? name.map(LinkedProvider.cut)
        account.photoURL = entry.photoURL
        account.providers = [entry]
        return try begin(account, provider: entry.id)
    }

    /// The account's own address and name stay: its user may have changed them.
    private func signIn(_ former: Account, as entry: LinkedProvider) throws -> OpenedSession {
        var account = former
        account.set(entry)
        try audit(.signIn, account.id, entry.id)
        return try open(account, provider: entry.id)
    }

    /// The service says that its user owns the address of an account.
    private func join(_ former: Account, _ entry: LinkedProvider) throws -> Received {
        guard !former.isDisabled else { throw AccountError("USER_DISABLED") }
        var account = former
        // The service has given the address to another person: its former owner is out, as if they had never proven it.
        let isRecycled = account.providers.contains { $0.id == entry.id }
        if !account.isEmailVerified || isRecycled { try reclaim(&account) }
        account.isEmailVerified = true
        account.displayName = entry.displayName
        account.photoURL = entry.photoURL
        account.set(entry)
        try audit(.providerLinked, account.id, entry.id)
        return .opened(try open(account, provider: entry.id), isNew: false, isRecycled: isRecycled)
    }

    private func link(
        _ entry: LinkedProvider, _ identity: FederatedIdentity, _ address: EmailAddress?, _ user: TokenUser
    ) throws -> OpenedSession {
        // A linked service is another way in for good: nothing that a stolen token alone may add.
        try user.requireRecentSignIn(settings, now: now())
        var account = user.account
        account.set(entry)
        if let address, account.email == nil {
            if try identity.isEmailVerified || mayTake(unproven: address, account) {
                try changeAddress(of: &account, to: address, isVerified: identity.isEmailVerified)
            }
        } else if let address, account.email == address.text, identity.isEmailVerified {
            account.isEmailVerified = true
        }
        try audit(.providerLinked, account.id, entry.id)
        // The session before stays: if this answer is lost, its device still has something. Its moment of sign-in goes on.
        return try open(account, provider: entry.id, continuing: user.session)
    }
}

extension LinkedProvider {
    fileprivate init(_ identity: FederatedIdentity, _ address: EmailAddress?) {
        self.init(id: identity.provider, rawID: identity.subject)
        email = address?.text ?? identity.email
        displayName = identity.name.map(Self.cut)
        photoURL = identity.picture.flatMap { $0.utf8.count <= 2048 ? $0 : nil }
    }

    /// At most the 256 characters, of Unicode, that a display name has.
    fileprivate static func cut(_ name: String) -> String { String(String.UnicodeScalarView(name.unicodeScalars.prefix(256))) }
}

extension Account {
    /// Adds an identity, in the place of another of the same service.
    fileprivate mutating func set(_ entry: LinkedProvider) {
        if let at = providers.firstIndex(where: { $0.id == entry.id }) { providers[at] = entry } else { providers.append(entry) }
    }
}
