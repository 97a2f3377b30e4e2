/// The limits of rules: a file over a limit is refused; a value over one makes its rule not true.
public enum RulesLimits {
    /// Largest rules file in bytes of UTF-8.
    public static let fileBytes = 1_048_576
    /// The deepest nesting of one expression, so that recursion over it is safe.
    public static let expressionHeight = 256
    /// The longest string that an expression may compute, in bytes of UTF-8: equal to the longest stored one.
    public static let computedBytes = 10_485_760

    /// Most states of a regular expression.
    public static let regexStates = 5_000
    /// Most states of its table.
    public static let regexTableStates = 2_048
    /// Most states of a regular expression that is simulated because its table would be too large.
    public static let regexSimulatedStates = 256

    /// Most text work of one operation, over all its rules and places. Each byte that is searched, joined, changed or matched by a table
    /// counts as one. At worst some tenths of a second.
    public static let textWork = 67_108_864
    /// Work per byte and state of a simulated expression: with 256 states, texts of up to 32 KiB can be matched.
    public static let regexStateWork = 8
    /// Comparing longer texts counts as work: one unit for this many bytes.
    static let comparedBytes = 16
    /// Work for each node that `equals` or `hasAny` compares, and for each byte that `fold` changes.
    static let nodeWork = 16
    static let foldWork = 16
    /// Work to look up a time zone whose name comes from data: the file of an unknown one is searched each time.
    static let zoneWork = 4_096

    /// Most parts that function calls add to the rules of a file. A part is a name, a literal, an operation or a call.
    public static let functionParts = 262_144

    /// Most text work to compute when and how one node ends.
    public static let expiryTextWork = 65_536

    /// Most text work of the `if` of an `.inbox` for one candidate.
    public static let rowTextWork = 65_536

    /// Most watches of a place and of a file, and most places in `on`.
    public static let watchesOfPlace = 8
    public static let watches = 100
    public static let placesOfWatch = 8
    /// The largest radius of a watch in metres: a larger one finds nothing, and neither does one that is not above 0.
    public static let watchMetres = 1_000_000.0

    /// Most counters, copies, inboxes and watches of a file, together.
    public static let countersAndCopies = 1_000
    /// Most functions of a file.
    public static let functions = 1_000
    /// Most comparisons of a rule that each of the two checks for null examines: each time the rule is evaluated.
    public static let comparisonsTried = 100
    /// Most rule nodes visited in the search for targets that are always refused.
    public static let targetsTried = 100_000

    /// Most metres of a `.count`'s `radius` and `snap`, and most counts of its `perMinute`.
    public static let countMetres = 1_000_000.0
    public static let countsPerMinute = 10_000
    /// The most that a `.count`'s `least` can be.
    public static let leastCount = 1_000

    /// Longest `.message` in bytes of UTF-8, and the most messages in one refusal.
    public static let messageBytes = 1_000
    public static let messages = 100

    /// Most times that one commit applies the patches of a node whose `.expire` was due repeatedly.
    public static let patchesAtOnce = 1_000

    /// Longest title, body, address and tag of a notification in bytes of UTF-8: longer ones are cut. Most languages of a text.
    public static let titleBytes = 1_000
    public static let bodyBytes = 4_000
    public static let addressBytes = 2_000
    public static let tagBytes = 200
    public static let languages = 40
    /// Largest value in the event of a `.webhook`, in bytes: a larger one is left out.
    public static let eventBytes = 65_536

    /// Most steps of a trace.
    public static let traceSteps = 1_000
    /// Most parts of one step.
    public static let traceParts = 500
}
