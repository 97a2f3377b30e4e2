/// What rules may cost, in one place: a file over a limit is refused, a value over one makes its rule not true.
public enum RulesLimits {
    /// Largest rules file in bytes of UTF-8.
    public static let fileBytes = 1_048_576
    /// Deepest nesting of one expression: everything that recurses over it is safe.
    public static let expressionHeight = 256
    /// Longest string that an expression may compute, in bytes of UTF-8: as long as the longest stored one.
    public static let computedBytes = 10_485_760

    /// Most states of a regular expression.
    public static let regexStates = 5_000
    /// Most states of its table.
    public static let regexTableStates = 2_048
    /// Most states of one whose table would be larger: it is simulated.
    public static let regexSimulatedStates = 256

    /// Most work on texts in one evaluated operation, over all its rules and places: a byte that is searched, joined, changed or matched
    /// by a table is one. Some tenths of a second at worst.
    public static let textWork = 67_108_864
    /// What a byte costs that is matched by a simulated expression, for each of its states: with 256 of them 32 KiB are the most.
    public static let regexStateWork = 8
    /// Texts that are longer are work when they are compared with one another; so many bytes are one.
    static let comparedBytes = 16

    /// Most steps of a trace.
    public static let traceSteps = 1_000
    /// Most parts of one step.
    public static let traceParts = 500
}
