/// Takes letters to where they go.
public protocol LetterCarrier: Sendable {
    /// Returns when the letter has been taken over by who is responsible for it now.
    func carry(_ letter: Letter) async throws(LetterFault)
}

/// Why a letter was not taken. The text names no secret and nothing of the letter.
public enum LetterFault: Error, Sendable, Equatable {
    /// Worth another try.
    case later(String)
    /// This letter will never be taken: the recipient is refused.
    case never(String)

    public var text: String {
        switch self {
        case .later(let text), .never(let text): text
        }
    }
}
