import Mail

/// What a page behind a mailed link shows (accounts contract §8). Values only: `html` writes it, `AccountService+ActionPage`
/// chooses it.
enum ActionPage: Equatable {
    /// A button that does it. GET changes nothing: mail scanners open links.
    case confirm(CodeKind, email: String, newEmail: String?)
    /// A form for a new password; after a first try with what was wrong with it.
    case password(email: String, PasswordWeakness?)
    /// The app signs in by itself; where to go on, if that is known.
    case signIn
    case done(CodeKind, email: String)
    case failed(Fault)

    enum Fault: Equatable {
        /// Never was, is used, or a newer one was mailed.
        case used
        case expired
        case emailTaken
        case disabled
        case tooMany
        /// No or half a link.
        case incomplete
        /// Ours: the store.
        case later
    }

    /// The form's hidden fields: what the link said, so that the form can say it again.
    struct Link: Equatable {
        var mode = ""
        var code = ""
        var key = ""
        var language = Language.english
        /// Only ever one that is allowed.
        var continueURL: ContinueURL?
    }

    var isFault: Bool {
        switch self {
        case .failed: true
        case .password(_, let weakness): weakness != nil
        default: false
        }
    }
}

extension ActionPage.Fault {
    init(_ error: any Error) {
        self = switch (error as? AccountError)?.code {
        case "INVALID_OOB_CODE": .used
        case "EXPIRED_OOB_CODE": .expired
        case "EMAIL_EXISTS": .emailTaken
        case "USER_DISABLED": .disabled
        case "TOO_MANY_ATTEMPTS_TRY_LATER": .tooMany
        default: .later
        }
    }
}
