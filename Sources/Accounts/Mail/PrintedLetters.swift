/// Prints what it should send: for development without a mail server. Never outside `--dev`: what it prints lets who reads it
/// into accounts.
public struct PrintedLetters: LetterCarrier {
    private let print: @Sendable (String) -> Void

    /// - Parameter print: takes one line.
    public init(_ print: @escaping @Sendable (String) -> Void) { self.print = print }

    public func carry(_ letter: Letter) async throws(LetterFault) {
        print("mail to \(letter.to.text), \(letter.kind.rawValue): \(letter.link ?? letter.subject)")
    }
}
