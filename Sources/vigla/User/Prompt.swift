import Glibc

/// Prompts the user at the terminal.
enum Prompt {
    /// The line typed after a question; nil without a terminal.
    static func line(_ question: String) -> String? {
        guard isatty(STDIN_FILENO) == 1 else { return nil }
        StandardStream.error.write(Array(question.utf8))
        return readLine(strippingNewline: true)
    }

    /// A line that is not echoed while it is typed; nil without a terminal.
    static func secret(_ question: String) -> String? {
        var before = termios()
        guard isatty(STDIN_FILENO) == 1, tcgetattr(STDIN_FILENO, &before) == 0 else { return nil }
        var silent = before
        silent.c_lflag &= ~tcflag_t(ECHO)
        guard tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent) == 0 else { return nil }
        defer {
            tcsetattr(STDIN_FILENO, TCSAFLUSH, &before)
            StandardStream.error.line("")
        }
        StandardStream.error.write(Array(question.utf8))
        return readLine(strippingNewline: true)
    }
}
