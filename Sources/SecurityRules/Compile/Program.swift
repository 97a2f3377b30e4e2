import JSONTree

/// The compiled rules: expressions as flat instructions, and the tree of rule nodes as a flat array of places. Immutable.
final class Program: Sendable {
    let tables: ProgramTables
    let details: ContiguousArray<PlaceDetails>
    /// The file's functions, by index.
    let functions: [(name: String, source: RuleSource)]
    /// Whether any place has a message.
    let hasMessages: Bool
    /// Whether any place has a `.default` or a `.drop`.
    let shapesWrites: Bool
    /// Whether any place declares consequences.
    let hasConsequences: Bool
    /// Whether any place has a `.rate`.
    let hasRates: Bool
    /// Whether any place has an `.expire`.
    let hasExpiry: Bool
    /// Whether any `.expire` reads `written`.
    let readsWritten: Bool
    /// Whether any place has a `.copy` or an `.inbox`.
    let copies: Bool
    /// Whether any place has an `.inbox`.
    let hasInboxes: Bool
    /// The indexed places of copies with an `each` and of set members, by index.
    let indexed: [IndexedPlaces]
    /// All watches, and the places whose children they find.
    let watches: [WatchRule]
    let watchedPlaces: [WatchedPlace]
    /// The places that watches depend on, each with everything below it.
    let watchPatterns: [[Key?]]
    /// All counters, and the sets they count.
    let counters: [Counter]
    let sets: CounterSets
    /// The `.account` rules, applied when an account is deleted.
    let accounts: [AccountRule]
    /// See `RulesLimits`.
    let textWork: Int

    init(_ builder: consuming ProgramBuilder, textWork: Int = RulesLimits.textWork) {
        self.textWork = textWork
        precondition(NodeCursor.hasKnownLayout, "this compiler lays nodes out otherwise than cursors expect")
        tables = ProgramTables(builder)
        details = builder.details
        functions = builder.functions
        hasMessages = builder.details.contains { !$0.messages.isEmpty }
        hasConsequences = !builder.watches.isEmpty
            || builder.places.first.map { $0.removes || $0.counts || $0.copies || $0.delivers } ?? false
        copies = builder.places.first?.copies ?? false
        hasRates = builder.places.first?.rates ?? false
        hasExpiry = builder.places.first?.expires ?? false
        readsWritten = builder.places.contains { $0.readsWritten }
        indexed = builder.indexed
        hasInboxes = builder.details.contains { !$0.inboxes.isEmpty }
        (watches, watchedPlaces) = (builder.watches, builder.watchedPlaces)
        watchPatterns = Array(Set(builder.watches.flatMap(\.patterns)))
        counters = builder.counters
        accounts = builder.accounts
        sets = CounterSets(builder.counters)
        shapesWrites = builder.places.first.map { $0.drops || $0.defaults } ?? false
    }

    deinit { tables.deallocate() }
}

/// Everything an evaluation reads, at fixed addresses: a running rule counts no references to its own code. Valid as long as the program
/// lives.
struct ProgramTables: @unchecked Sendable {
    // Sendable: written once before the program is shared, only read afterwards.
    let code: UnsafeMutableBufferPointer<Instruction>
    /// The range of each instruction in the text of its rule.
    let spans: UnsafeMutableBufferPointer<Span>
    let constants: UnsafeMutableBufferPointer<Node>
    /// The constants, converted to values.
    let values: UnsafeMutableBufferPointer<Value>
    /// The value of a snapshot used as a value: not null, equal to nothing.
    let token: NodeCursor
    let keys: UnsafeMutableBufferPointer<Key>
    let steps: UnsafeMutableBufferPointer<Step>
    let regexes: UnsafeMutableBufferPointer<Regex>
    let zones: UnsafeMutableBufferPointer<TimeZoneTable>
    /// The paths that rules read from the query's `where`.
    let conditions: UnsafeMutableBufferPointer<Path>

    let places: UnsafeMutableBufferPointer<Place>
    /// Literal children of all places, each place's range ascending by fingerprint.
    let literals: UnsafeMutableBufferPointer<Literal>

    /// Paths from a root that several rules use; each follows its parent.
    let sharedPaths: UnsafeMutableBufferPointer<SharedPath>
    /// The most computed strings that exist at once.
    let scratchCapacity: Int

    init(_ builder: borrowing ProgramBuilder) {
        func table<Element>(_ elements: ContiguousArray<Element>) -> UnsafeMutableBufferPointer<Element> {
            let table = UnsafeMutableBufferPointer<Element>.allocate(capacity: elements.count)
            _ = table.initialize(from: elements)
            return table
        }
        code = table(builder.code)
        spans = table(builder.spans)
        constants = table(builder.constants)
        let constants = constants
        values = table(ContiguousArray(constants.indices.map { Value(NodeCursor(constants.baseAddress.unsafelyUnwrapped + $0)) }))
        token = NodeCursor(constants.baseAddress.unsafelyUnwrapped)
        keys = table(builder.keys)
        steps = table(builder.steps)
        regexes = table(builder.regexes)
        zones = table(builder.zones)
        conditions = table(builder.conditions)
        places = table(builder.places)
        literals = table(builder.literals)
        sharedPaths = table(builder.sharedPaths)
        // Each nesting level holds at most three operands.
        scratchCapacity = 3 * (builder.maxNesting + 1)
    }

    func deallocate() {
        func free<Element>(_ table: UnsafeMutableBufferPointer<Element>) {
            table.deinitialize()
            table.deallocate()
        }
        free(code)
        free(spans)
        free(constants)
        free(values)
        free(keys)
        free(steps)
        free(regexes)
        free(zones)
        free(conditions)
        free(places)
        free(literals)
        free(sharedPaths)
    }
}

/// One node of the rules tree, without references; -1 means none.
struct Place {
    var read: Int32 = -1
    var write: Int32 = -1
    var validate: Int32 = -1
    var count: Int32 = -1
    var wildcard: Int32 = -1
    var firstLiteral: Int32 = 0
    var literalCount: Int32 = 0
    /// Whether the node or one below it has: a `.validate`; a `.drop`; a `.default`, a kept one; a `.removes`, one that applies on a
    /// change; `.counts`, one that creates its node; a `.copy` or an `.inbox`; a `.rate`; a `.notify` or a `.webhook`; an `.expire`.
    var validates = false
    var drops = false
    var defaults = false
    var keeps = false
    var removes = false
    var removesOnChange = false
    var counts = false
    var createsNodes = false
    var copies = false
    var rates = false
    var delivers = false
    var expires = false
    /// Whether the node itself has: a `.removes`, `.counts`, `.copy`, `.inbox`, `.notify` or `.webhook`; an `.expire`.
    var isSource = false
    var ends = false
    /// Whether its `.expire` reads `written`, and the wildcards that it sees: one bit for the depth of each.
    var readsWritten = false
    var expiryKeys: UInt64 = 0
    /// What the `.validate` rules of the node and of those below it depend on.
    var validity = Reach()

    subscript(kind: RuleKind) -> Int32 {
        get {
            switch kind {
            case .read: read
            case .write: write
            case .validate: validate
            case .count: count
            }
        }
        set {
            switch kind {
            case .read: read = newValue
            case .write: write = newValue
            case .validate: validate = newValue
            case .count: count = newValue
            }
        }
    }
}

/// A literal child of a place.
struct Literal {
    var fingerprint: UInt64
    /// The index of the key.
    var key: Int32
    var place: Int32
}

/// The `.default` of a place.
struct DefaultRule: Sendable {
    enum Value: Sendable {
        /// The first instruction of its expression.
        case expression(Int32)
        case node(Node)
    }

    let value: Value
    /// Whether the place has this value after every write at or below its parent, whatever is sent.
    let isKept: Bool
}

/// Data off the hot path: the texts of the file, for traces and indexes.
struct PlaceDetails: Sendable {
    /// The rule node's place with its wildcards, such as `/users/$uid`.
    var pattern: Path
    var sources: [RuleKind: RuleSource] = [:]
    /// The names of `.indexOn`, and those of `.geoIndex`.
    var indexes: [String] = []
    /// The paths of the latitude and longitude below each child.
    var geoIndex: (latitude: Path, longitude: Path)?
    /// The `filter` names of `.geoIndex`: the only conditions allowed in counts without an account.
    var countFilters: [String] = []
    /// The bounds of `.count` for callers without an account.
    var countTerms: CountTerms?
    /// The messages sent to a client when the `.validate` or the `.write` of the place refuses.
    var messages: [RuleKind: String] = [:]
    /// The first instruction of the `.drop`; -1 for none.
    var drop: Int32 = -1
    var defaultRule: DefaultRule?
    /// What is removed with the node, or when it changes.
    var removes: [RemovalRule] = []
    var copies: [CopyRule] = []
    /// The inbox rows that follow from the node.
    var inboxes: [InboxRule] = []
    /// What leaves the hub because of the node.
    var notifications: [NotifyRule] = []
    var webhooks: [WebhookRule] = []
    /// Whether the node has watches.
    var watches = false
    /// When and how the node ends.
    var expires: [ExpiryRule] = []
    /// The indexes of the node's counters.
    var counts: [Int] = []
    /// How often one user may write here and below.
    var rate: WriteRate?
    /// The literal children with a `.default`, in the order of the file.
    var defaulted: [(key: Key, place: Int32)] = []
}

/// The source text and position of a rule's expression.
public struct RuleSource: Sendable, Hashable {
    public let text: String
    public let line: Int
    public let column: Int
    /// The byte offset in the file at which the value begins.
    let offset: Int
}

extension ProgramTables {
    /// The rule node of a place; -1 for none. O(depth · log literals)
    /// - Parameter isAlong: called for each rule node above the place, from the root. False ends the search.
    @inline(__always)
    func place(of path: Path, along isAlong: (Place) -> Bool) -> Int32 {
        path.keys.withUnsafeBufferPointer { keys in
            var place: Int32 = 0
            for i in keys.indices {
                guard isAlong(places[Int(place)]) else { return -1 }
                place = child(of: place, TextCursor(keys.baseAddress.unsafelyUnwrapped + i))
                if place < 0 { return -1 }
            }
            return place
        }
    }

    @inline(__always)
    func key(_ number: Int32) -> TextCursor { TextCursor(UnsafePointer(keys.baseAddress.unsafelyUnwrapped + Int(number))) }

    /// The rule node for a child: a literal hides the wildcard completely (rules contract §1.2). -1 for none. O(log literals)
    @inline(__always)
    func child(of place: Int32, _ key: TextCursor) -> Int32 {
        let node = places[Int(place)]
        if node.literalCount > 0 {
            let hash = key.fingerprint
            var low = Int(node.firstLiteral)
            let end = low + Int(node.literalCount)
            var high = end
            while low < high {
                let middle = (low + high) / 2
                if literals[middle].fingerprint < hash { low = middle + 1 } else { high = middle }
            }
            while low < end, literals[low].fingerprint == hash {
                if self.key(literals[low].key).isEqual(to: key) { return literals[low].place }
                low += 1
            }
        }
        return node.wildcard
    }
}
