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
        var shown = Self.credential(identity, request)
        do {
            let result = try commit { transaction, aftermath in
                try receive(identity, name: request.name, token, creates: creates, call, in: transaction, &aftermath)
            }
            switch result {
            case .confirm(let account):
                // The token was of no use: after a sign-in of the other kind it is shown again, to be linked.
                await federated.release(identity)
                shown.add("needConfirmation", true)
                shown.add("localId", account.id)
                shown.add("email", account.email)
                shown.add("verifiedProvider", .array(account.providerNames.map(JSONValue.string)))
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

    private enum Received {
        case opened(OpenedSession, isNew: Bool, isRecycled: Bool)
        case confirm(Account)
    }

    /// - Parameter name: of a user whom the service itself does not name.
    private func receive(
        _ identity: FederatedIdentity, name: String?, _ token: VerifiedToken?, creates: Bool, _ call: AccountCall, in transaction: AccountTransaction,
        _ aftermath: inout Aftermath
    ) throws -> Received {
        let address = identity.email.flatMap(EmailAddress.init)
        let standing = try token.map { try self.standing(of: $0, in: transaction) }
        let known = try transaction.account(.provider(identity.provider, rawID: identity.subject))
        let holder = try address.flatMap { try transaction.account(.email($0.text)) }
        let outcome = FederatedOutcome(
            isSignedIn: standing != nil, isKnown: known != nil,
            addressOf: holder == nil ? .nobody : holder?.id == standing?.account.id ? .own : .other,
            // A development hub believes whatever it is told.
            isBelieved: identity.isAuthoritative || settings.isDev && identity.isEmailVerified)
        let entry = LinkedProvider(identity, address)
        switch (outcome, known, holder, standing) {
        case (.alreadyLinked, _, _, _): throw AccountError("FEDERATED_USER_ID_ALREADY_LINKED")
        case (.addressTaken, _, _, _): throw AccountError("EMAIL_EXISTS")
        case (.link, _, _, let standing?): return .opened(try link(entry, identity, address, standing, call, in: transaction, &aftermath), isNew: false, isRecycled: false)
        case (.signIn, let account?, _, _):
            guard !account.isDisabled else { throw AccountError("USER_DISABLED") }
            return .opened(try signIn(account, as: entry, call, in: transaction), isNew: false, isRecycled: false)
        case (.join, _, let account?, _): return try join(account, entry, identity, call, in: transaction, &aftermath)
        case (.confirm, _, let account?, _): return .confirm(account)
        default: return .opened(try create(entry, identity, address, name: name, creates: creates, call, in: transaction), isNew: true, isRecycled: false)
        }
    }

    private func create(
        _ entry: LinkedProvider, _ identity: FederatedIdentity, _ address: EmailAddress?, name: String?, creates: Bool, _ call: AccountCall,
        in transaction: AccountTransaction
    ) throws -> OpenedSession {
        // Not USER_NOT_FOUND: a re-authentication as somebody else would sign the user out (accounts contract §3.3).
        guard creates else { throw AccountError("EMAIL_NOT_FOUND") }
        guard settings.allowsSignUp else { throw AccountError("ADMIN_ONLY_OPERATION") }
        try admitSignUp(from: call.peer)
        var account = Account(id: RandomName.accountID(), createdAt: now())
        account.email = address?.text
        account.isEmailVerified = address != nil && identity.isEmailVerified
        account.displayName = entry.displayName ?? name.map { String($0.prefix(256)) }
        account.photoURL = entry.photoURL
        account.providers = [entry]
        return try begin(account, provider: entry.id, call, in: transaction)
    }

    /// The account's own address and name stay: its user may have changed them.
    private func signIn(_ former: Account, as entry: LinkedProvider, _ call: AccountCall, in transaction: AccountTransaction) throws -> OpenedSession {
        var account = former
        account.set(entry)
        try transaction.audit(.signIn, account.id, peer: call.peer, at: now(), entry.id)
        return try open(account, provider: entry.id, call, in: transaction)
    }

    /// The service says that its user owns the address of an account.
    private func join(
        _ former: Account, _ entry: LinkedProvider, _ identity: FederatedIdentity, _ call: AccountCall, in transaction: AccountTransaction,
        _ aftermath: inout Aftermath
    ) throws -> Received {
        guard !former.isDisabled else { throw AccountError("USER_DISABLED") }
        var account = former
        // The service has given the address to somebody else: who had it before is out, as if they had never proven it.
        let isRecycled = account.providers.contains { $0.id == entry.id }
        if !account.isEmailVerified || isRecycled { try reclaim(&account, call, in: transaction, &aftermath) }
        account.isEmailVerified = true
        account.displayName = entry.displayName
        account.photoURL = entry.photoURL
        account.set(entry)
        try transaction.audit(.providerLinked, account.id, peer: call.peer, at: now(), entry.id)
        return .opened(try open(account, provider: entry.id, call, in: transaction), isNew: false, isRecycled: isRecycled)
    }

    private func link(
        _ entry: LinkedProvider, _ identity: FederatedIdentity, _ address: EmailAddress?, _ standing: Standing, _ call: AccountCall,
        in transaction: AccountTransaction, _ aftermath: inout Aftermath
    ) throws -> OpenedSession {
        // A linked service is another way in for good: nothing that a stolen token alone may add.
        try requireRecentSignIn(standing)
        var account = standing.account
        account.set(entry)
        if let address, account.email == nil {
            if try identity.isEmailVerified || mayTake(unproven: address, account, call, in: transaction) {
                try changeAddress(of: &account, to: address, isVerified: identity.isEmailVerified, call, in: transaction, &aftermath)
            }
        } else if let address, account.email == address.text, identity.isEmailVerified {
            account.isEmailVerified = true
        }
        try transaction.audit(.providerLinked, account.id, peer: call.peer, at: now(), entry.id)
        // The session before stays: if this answer is lost, its device still has something. Its moment of sign-in goes on.
        return try open(account, provider: entry.id, continuing: standing.session, call, in: transaction)
    }
}

extension LinkedProvider {
    fileprivate init(_ identity: FederatedIdentity, _ address: EmailAddress?) {
        self.init(id: identity.provider, rawID: identity.subject)
        email = address?.text ?? identity.email
        displayName = identity.name.map { String($0.prefix(256)) }
        photoURL = identity.picture.flatMap { $0.utf8.count <= 2048 ? $0 : nil }
    }
}

extension Account {
    /// Adds an identity, in the place of another of the same service.
    fileprivate mutating func set(_ entry: LinkedProvider) {
        if let at = providers.firstIndex(where: { $0.id == entry.id }) { providers[at] = entry } else { providers.append(entry) }
    }
}
