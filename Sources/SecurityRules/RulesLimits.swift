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
    /// Longest text in bytes of UTF-8 that a simulated one is matched with: some tens of milliseconds at worst.
    public static let regexSimulatedBytes = 65_536

    /// Most steps of a trace.
    public static let traceSteps = 1_000
    /// Most parts of one step.
    public static let traceParts = 500
}
