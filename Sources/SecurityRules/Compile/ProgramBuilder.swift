import JSONTree

/// Lowers checked terms to instructions and collects the program's tables.
///
/// Work that does not depend on the request happens here. Constants are folded, `child('a/b')` paths and paths joined with `+` are cut into
/// steps, and `parent()` of a known place becomes that place.
struct ProgramBuilder {
    var code: ContiguousArray<Instruction> = []
    var spans: ContiguousArray<Span> = []
    /// What each instruction depends on.
    private(set) var reaches: ContiguousArray<Reach> = []
    var constants: ContiguousArray<Node> = []
    var keys: ContiguousArray<Key> = []
    var steps: ContiguousArray<Step> = []
    var regexes: ContiguousArray<Regex> = []
    var zones: ContiguousArray<TimeZoneTable> = []
    var conditions: ContiguousArray<Path> = []
    /// The file's functions, by index.
    var functions: [(name: String, source: RuleSource)] = []
    /// The indexed places of copies with an `each` and of set members.
    var indexed: [IndexedPlaces] = []
    /// All watches, and the places whose children they find.
    var watches: [WatchRule] = []
    private(set) var watchedPlaces: [WatchedPlace] = []
    var counters: [Counter] = []
    /// The `.account` rules, applied when an account is deleted.
    var accounts: [AccountRule] = []
    var places: ContiguousArray<Place> = []
    var literals: ContiguousArray<Literal> = []
    var details: ContiguousArray<PlaceDetails> = []
    var sharedPaths: ContiguousArray<SharedPath> = []
    /// The deepest nesting of any expression.
    private(set) var maxNesting = 0

    private var keyNumbers: [Key: Int32] = [:]

    /// The depth of the rule node whose expression is being lowered.
    private var depth = 0
    private var nesting = 0

    init() { constants.append(Self.token) }

    mutating func lower(_ term: Term, depth: Int) -> Int32 {
        self.depth = depth
        return lower(term)
    }

    /// Lowers an expression that yields a snapshot.
    mutating func lower(_ snapshot: SnapshotTerm, depth: Int) -> Int32 {
        self.depth = depth
        return lower(snapshot)
    }

    private mutating func emit(_ instruction: Instruction, _ span: Span) -> Int32 {
        code.append(instruction)
        code[code.count - 1].readsData = readsData(instruction)
        reaches.append(reach(instruction))
        spans.append(span)
        return Int32(code.count - 1)
    }

    /// Operands are emitted before their users, so their `readsData` is known.
    private func readsData(_ instruction: Instruction) -> Bool {
        func reads(_ operand: Int32) -> Bool { code[Int(operand)].readsData }
        switch instruction.operation {
        case .no, .yes, .queryFlag, .constant, .now, .written, .distance, .auth, .uid, .capture, .queryField, .queryCondition: return false
        case .place, .shared, .below, .parent, .exists, .hasChildren, .isKind, .hasAll, .hasAny, .equals, .sharesKey, .val,
            .valOr, .childCount, .priority, .opaque:
            return true
        case .not, .equalConstant, .notEqualConstant, .matches, .property, .negate, .length, .recase, .fold, .dayNumber, .dayOf, .call:
            return reads(instruction.a)
        case .and, .or, .compare, .stringTest, .propertyIndex, .arithmetic, .dayIn: return reads(instruction.a) || reads(instruction.b)
        case .replace, .conditional: return reads(instruction.a) || reads(instruction.b) || reads(instruction.c)
        }
    }

    mutating func number(_ key: Key) -> Int32 {
        if let known = keyNumbers[key] { return known }
        keys.append(key)
        keyNumbers[key] = Int32(keys.count - 1)
        return Int32(keys.count - 1)
    }

    mutating func number(_ place: WatchedPlace) -> Int {
        if let known = watchedPlaces.firstIndex(of: place) { return known }
        watchedPlaces.append(place)
        return watchedPlaces.count - 1
    }

    private mutating func number(_ constant: Node) -> Int32 {
        constants.append(constant)
        return Int32(constants.count - 1)
    }

    // MARK: Values and booleans

    private mutating func lower(_ unfolded: Term) -> Int32 {
        nesting += 1
        defer { nesting -= 1 }
        maxNesting = max(maxNesting, nesting)
        let term = unfolded.folded
        func emit(_ operation: Operation, detail: UInt8 = 0, _ a: Int32 = -1, _ b: Int32 = -1, _ c: Int32 = -1) -> Int32 {
            self.emit(Instruction(operation: operation, detail: detail, a: a, b: b, c: c), term.span)
        }
        switch term.kind {
        case .constant(.bool(let value)): return emit(value ? .yes : .no)
        case .constant(let node): return emit(.constant, number(node))
        case .now: return emit(.now)
        case .written: return emit(.written)
        case .distance: return emit(.distance)
        case .auth: return emit(.auth)
        case .capture(let depth): return emit(.capture, Int32(depth))
        case .property(let target, let key):
            if case .auth = target.kind, key == "uid" { return emit(.uid) }
            return emit(.property, lower(target), number(key))
        case .propertyIndex(let target, let index): return emit(.propertyIndex, lower(target), lower(index))
        case .query(let field): return emit(field.isFlag ? .queryFlag : .queryField, detail: field.number)

        case .condition(let path):
            conditions.append(path)
            return emit(.queryCondition, Int32(conditions.count - 1))

        case .not(let operand): return emit(.not, lower(operand))
        case .negate(let operand): return emit(.negate, lower(operand))
        case .all(let operands): return chain(operands, .and, term.span)
        case .any(let operands): return chain(operands, .or, term.span)
        case .comparison(let comparison, let a, let b): return compare(comparison, a, b, term.span)
        case .arithmetic(let operation, let a, let b): return emit(.arithmetic, detail: operation.number, lower(a), lower(b))
        case .conditional(let condition, let a, let b): return emit(.conditional, lower(condition), lower(a), lower(b))

        case .val(let snapshot): return emit(.val, lower(snapshot))
        case .valOr(let snapshot, let other): return emit(.valOr, lower(snapshot), lower(other))
        case .childCount(let snapshot): return emit(.childCount, lower(snapshot))
        case .equals(let a, let b): return emit(.equals, lower(a), lower(b))
        case .sharesKey(let a, let b): return emit(.sharesKey, lower(a), lower(b))
        case .priority(let snapshot): return emit(.priority, lower(snapshot))
        case .exists(let snapshot): return emit(.exists, lower(snapshot))
        case .hasChildren(let snapshot): return emit(.hasChildren, lower(snapshot))
        case .isKind(let snapshot, let kind): return emit(.isKind, detail: kind.rawValue, lower(snapshot))
        case .opaque(let snapshot):
            guard let snapshot else { return emit(.constant, 0) }
            return emit(.opaque, lower(snapshot))
        case .hasAll(let snapshot, let names): return hasNames(.hasAll, snapshot, names, term.span)
        case .hasAny(let snapshot, let names): return hasNames(.hasAny, snapshot, names, term.span)

        case .length(let text): return emit(.length, lower(text))
        case .stringTest(let test, let text, let part): return emit(.stringTest, detail: test.rawValue, lower(text), lower(part))
        case .replace(let text, let old, let new): return emit(.replace, lower(text), lower(old), lower(new))
        case .recase(let text, let toUpper): return emit(.recase, detail: toUpper ? 1 : 0, lower(text))
        case .matches(let text, let regex):
            regexes.append(regex)
            return emit(.matches, lower(text), Int32(regexes.count - 1))
        case .fold(let text): return emit(.fold, lower(text))
        case .dayNumber(let text): return emit(.dayNumber, lower(text))
        case .dayOf(let time, let zone):
            zones.append(zone)
            return emit(.dayOf, lower(time), Int32(zones.count - 1))
        case .dayIn(let time, let zone): return emit(.dayIn, lower(time), lower(zone))
        case .call(let body): return emit(.call, lower(body))
        }
    }

    /// The value of a snapshot, method or regular expression: non-null, equal to nothing. Constant 0.
    private static let token: Node = ["token": true]

    /// Right-nested, so that the evaluator loops along the chain.
    private mutating func chain(_ operands: [Term], _ operation: Operation, _ span: Span) -> Int32 {
        let lowered = operands.map { lower($0) }
        var result = lowered[lowered.count - 1]
        for operand in lowered.dropLast().reversed() {
            result = emit(Instruction(operation: operation, a: operand, b: result), span)
        }
        return result
    }

    private mutating func compare(_ comparison: Comparison, _ a: Term, _ b: Term, _ span: Span) -> Int32 {
        if comparison == .equal || comparison == .notEqual {
            for (value, other) in [(a, b.folded), (b, a.folded)] {
                guard case .constant(let node) = other.kind else { continue }
                let operation: Operation = comparison == .equal ? .equalConstant : .notEqualConstant
                return emit(Instruction(operation: operation, a: lower(value), b: number(node)), span)
            }
        }
        return emit(Instruction(operation: .compare, detail: comparison.number, a: lower(a), b: lower(b)), span)
    }

    private mutating func hasNames(_ operation: Operation, _ snapshot: SnapshotTerm, _ names: [Term], _ span: Span) -> Int32 {
        let place = lower(snapshot)
        // Each name is a "below" of its own, so that deep paths and computed names need no special case.
        var tests: [Step] = []
        for name in names {
            let path = steps(of: name)
            let start = Int32(steps.count)
            steps.append(contentsOf: path)
            let below = emit(Instruction(operation: .below, a: place, b: start, c: Int32(path.count)), name.span)
            tests.append(Step(kind: .value, index: below))
        }
        let start = Int32(steps.count)
        steps.append(contentsOf: tests)
        return emit(Instruction(operation: operation, a: place, b: start, c: Int32(tests.count)), span)
    }

    // MARK: Snapshots

    /// A partly resolved snapshot: a known place or a computed one, with steps below it.
    private struct Cursor {
        enum Base {
            case place(Tree, depth: Int)
            case computed(Int32)
        }
        var base: Base
        var path: [Step] = []
        var span = Span.none
    }

    private mutating func lower(_ snapshot: SnapshotTerm) -> Int32 { emit(cursor(snapshot)) }

    private mutating func emit(_ cursor: Cursor) -> Int32 {
        let start = Int32(steps.count)
        steps.append(contentsOf: cursor.path)
        let count = Int32(cursor.path.count)
        switch cursor.base {
        case .place(let tree, let depth):
            return emit(Instruction(operation: .place, detail: tree.rawValue, a: Int32(depth), b: start, c: count), cursor.span)
        case .computed(let base):
            if count == 0 { return base }
            return emit(Instruction(operation: .below, a: base, b: start, c: count), cursor.span)
        }
    }

    private mutating func cursor(_ snapshot: SnapshotTerm) -> Cursor {
        switch snapshot {
        case .data: return Cursor(base: .place(.old, depth: depth))
        case .newData: return Cursor(base: .place(.new, depth: depth))
        case .root: return Cursor(base: .place(.old, depth: 0))
        case .newRoot: return Cursor(base: .place(.new, depth: 0))
        case .child(let parent, let name):
            var cursor = cursor(parent)
            cursor.path.append(contentsOf: steps(of: name))
            cursor.span = name.span
            return cursor
        case .parent(let child, let span):
            var cursor = cursor(child)
            cursor.span = span
            switch (cursor.path.last?.kind, cursor.base) {
            case (.key?, _), (.capture?, _):
                cursor.path.removeLast()
                return cursor
            case (nil, .place(let tree, let depth)) where depth > 0:
                cursor.base = .place(tree, depth: depth - 1)
                return cursor
            default:
                let base = emit(cursor)
                return Cursor(base: .computed(emit(Instruction(operation: .parent, a: base), span)), span: span)
            }
        case .conditional(let condition, let a, let b):
            let instruction = Instruction(operation: .conditional, a: lower(condition), b: lower(a), c: lower(b))
            return Cursor(base: .computed(emit(instruction, condition.span)), span: condition.span)
        }
    }

    /// The steps that `child(name)` takes.
    private mutating func steps(of name: Term) -> [Step] {
        let name = name.folded
        switch name.kind {
        case .constant(.string(let text)):
            let segments = text.string.split(separator: "/")
            // A path without a segment leads to no node (rules contract §7): no child has the empty key.
            if segments.isEmpty { return [Step(kind: .key, index: number(Key("")))] }
            return segments.map { Step(kind: .key, index: number(Key(String($0)))) }
        case .capture(let depth): return [Step(kind: .capture, index: Int32(depth))]
        case .arithmetic(.add, _, _): return joinedSteps(name) ?? [Step(kind: .value, index: lower(name))]
        default: return [Step(kind: .value, index: lower(name))]
        }
    }

    /// Cuts `'mem/' + $r + '/' + auth.uid` into steps; nil unless each computed part is a whole segment.
    private mutating func joinedSteps(_ name: Term) -> [Step]? {
        guard let parts = name.joinedParts else { return nil }
        var path: [Step] = []
        var isAtSlash = true
        var hasSegment = false
        for (i, part) in parts.enumerated() {
            if case .constant(.string(let text)) = part.kind {
                let bytes = text.string.utf8
                guard isAtSlash || bytes.first == UInt8(ascii: "/") || bytes.isEmpty else { return nil }
                let isLast = i == parts.count - 1
                guard isLast || bytes.last == UInt8(ascii: "/") else { return nil }
                for segment in text.string.split(separator: "/") {
                    path.append(Step(kind: .key, index: number(Key(String(segment)))))
                    hasSegment = true
                }
                isAtSlash = true
            } else {
                guard isAtSlash else { return nil }
                isAtSlash = false
                if case .capture(let depth) = part.kind {
                    path.append(Step(kind: .capture, index: Int32(depth)))
                    hasSegment = true
                } else {
                    path.append(Step(kind: .part, index: lower(part)))
                }
            }
        }
        return hasSegment ? path : nil
    }
}
