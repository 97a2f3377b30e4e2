/// What becomes of an identity that another service vouches for (accounts contract §7.3). A pure decision:
///
///     signed in already? ── identity known ──────────────► alreadyLinked
///       (idToken)        ├─ address is another's ────────► addressTaken
///                        └─ else ────────────────────────► link
///     else               ┌─ identity known ──────────────► signIn
///                        ├─ address is an account's ─┬─ and the service is to be believed ─► join
///                        │                           └─ or not ────────────────────────────► confirm
///                        └─ else ────────────────────────► create
enum FederatedOutcome: Equatable {
    /// The account that has this identity.
    case signIn
    /// The account that has the address gets the identity as well.
    case join
    /// The account that has the address: its user is to sign in as before, and link then.
    case confirm
    case create
    /// The account of the ID token gets the identity.
    case link
    case alreadyLinked
    case addressTaken

    /// - Parameters:
    ///   - isSignedIn: the request has an ID token.
    ///   - isKnown: some account has this identity.
    ///   - addressOf: which account has the identity's address: none, that of the ID token, or another.
    ///   - isBelieved: the service can say whose the address is.
    init(isSignedIn: Bool, isKnown: Bool, addressOf holder: Holder, isBelieved: Bool) {
        self =
            if isSignedIn {
                isKnown ? .alreadyLinked : holder == .other ? .addressTaken : .link
            } else if isKnown { .signIn } else if holder == .none { .create } else { isBelieved ? .join : .confirm }
    }

    enum Holder: Equatable, CaseIterable { case none, own, other }
}
