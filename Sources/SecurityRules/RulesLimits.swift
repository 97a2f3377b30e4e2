/// The limits of rules: a file over a limit is refused, a value over one makes its rule not true.
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

    /// Most text work of one evaluated operation, over all its rules and places: each byte that is searched, joined, changed or matched
    /// by a table counts as one. Some tenths of a second at worst.
    public static let textWork = 67_108_864
    /// Work per byte and state of a simulated expression: with 256 states, texts of at most 32 KiB can be matched.
    public static let regexStateWork = 8
    /// Comparisons of longer texts count as work: one unit for this many bytes.
    static let comparedBytes = 16
    /// Work for each node that `equals` or `hasAny` compares, and for each byte that `fold` changes.
    static let nodeWork = 16
    static let foldWork = 16

    /// Most parts that calls of functions put into the rules of a file: a part is a name, a literal, an operation or a call.
    public static let functionParts = 262_144

    /// Most text work to find out when one node ends, and how.
    public static let expiryTextWork = 65_536

    /// Most text work of the `if` of an `.inbox` about one of many who may be reached.
    public static let rowTextWork = 65_536

    /// Most counters, copies and inboxes of a file, together.
    public static let countersAndCopies = 1_000
    /// Most functions of a file.
    public static let functions = 1_000
    /// Most comparisons of a rule of which the check finds out whether both sides may be missing: each evaluates the rule.
    public static let comparisonsTried = 100
    /// Rule nodes at which the check looks for what is always refused.
    public static let targetsTried = 100_000

    /// Most metres of a `.count`'s `radius` and `snap`, and most counts of its `perMinute`.
    public static let countMetres = 1_000_000.0
    public static let countsPerMinute = 10_000
    /// The most that a `.count`'s `least` can be.
    public static let leastCount = 1_000

    /// Longest `.message` in bytes of UTF-8, and most of them that one refusal tells.
    public static let messageBytes = 1_000
    public static let messages = 100

    /// How often one commit makes the patches of a node with an `.expire` that was due several times.
    public static let patchesAtOnce = 1_000

    /// Most steps of a trace.
    public static let traceSteps = 1_000
    /// Most parts of one step.
    public static let traceParts = 500
}
