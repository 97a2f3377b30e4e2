/// Why a password may not be set.
enum PasswordWeakness: Equatable {
    /// Fewer characters than this.
    case tooShort(Int)
    /// More bytes than this.
    case tooLong(Int)
    /// One of the first guesses.
    case common

    /// Asks for length and against the commonest passwords only: rules of composition make passwords worse (NIST SP 800-63B).
    init?(_ password: String, _ settings: PasswordSettings) {
        if password.unicodeScalars.count < settings.minLength { self = .tooShort(settings.minLength)
        } else if password.utf8.count > settings.maxBytes { self = .tooLong(settings.maxBytes)
        } else if settings.refusesCommon, Self.isCommon(password) { self = .common
        } else { return nil }
    }

    /// What follows `WEAK_PASSWORD : `.
    var text: String {
        switch self {
        case .tooShort(let least): "Password should be at least \(least) characters"
        case .tooLong(let most): "Password should be at most \(most) bytes"
        case .common: "Password is one of the commonest, choose another"
        }
    }

    /// One of the list, one character repeated, or characters that follow one another (`abcdefgh`, `87654321`).
    private static func isCommon(_ password: String) -> Bool {
        let lower = password.lowercased()
        if CommonPasswords.all.contains(lower) { return true }
        let scalars = lower.unicodeScalars.map { Int($0.value) }
        guard scalars.count > 1 else { return true }
        let step = scalars[1] - scalars[0]
        guard -1...1 ~= step else { return false }
        return zip(scalars, scalars.dropFirst()).allSatisfy { $1 - $0 == step }
    }
}
