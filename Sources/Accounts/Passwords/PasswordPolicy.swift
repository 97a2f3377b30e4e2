extension PasswordHasher {
    /// Why a password may not be set, as the text behind `WEAK_PASSWORD : `; nil if it may. Asks for length and against the
    /// commonest passwords only: rules of composition make passwords worse (NIST SP 800-63B).
    public static func weakness(of password: String, _ settings: PasswordSettings) -> String? {
        if password.unicodeScalars.count < settings.minLength { return "Password should be at least \(settings.minLength) characters" }
        if password.utf8.count > settings.maxBytes { return "Password should be at most \(settings.maxBytes) bytes" }
        if settings.refusesCommon, isCommon(password) { return "Password is one of the commonest, choose another" }
        return nil
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
