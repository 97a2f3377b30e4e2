extension Account {
    /// Whether a text can name a user, here or at another service. A control character is never seen, and the store ends a text at U+0000:
    /// two names would be one.
    static func isName(_ text: String) -> Bool { text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control } }
}
