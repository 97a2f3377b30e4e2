import JSONTree

/// A regular expression of the rules language, matched in time linear in the text (rules contract §9).
///
/// Works on UTF-16 code units, like `length`. When the rules are parsed, the automaton is made deterministic and stored as a table, so that
/// a match takes one lookup per unit. A pattern with too large a table is simulated over sets of states, if it has few enough states, and
/// only for texts short enough for them. Otherwise the pattern is refused.
///
///     /^[a-z]+$/i ──parse──► syntax ──► graph of states ──► table [state × class of unit] → state
final class Regex: Sendable {
    private let anchoredStart: Bool
    private let anchoredEnd: Bool
    private let matcher: Matcher

    private enum Matcher: Sendable {
        case table(Table)
        /// The fallback for patterns with an exponential table: states × units steps.
        case sets(StateSets)
    }

    private struct Table: Sendable {
        let classes: UnitClasses
        /// The next state at `state * classes.count + class`; -1 when no match can follow.
        let next: [Int32]
        let accepting: [Bool]
    }

    /// The most state visits while building a table.
    private static let maxWork = 4_000_000

    /// - Parameter maxTableStates: lowered in tests to force simulation.
    init(_ pattern: String, ignoresCase: Bool, maxTableStates: Int = RulesLimits.regexTableStates) throws(RegexError) {
        var units = Array(pattern.utf16)[...]
        anchoredStart = units.first == UInt16(UInt8(ascii: "^"))
        if anchoredStart { units.removeFirst() }
        anchoredEnd = Self.endsWithAnchor(units)
        if anchoredEnd { units.removeLast() }
        let syntax = try RegexParser.parse(units, ignoresCase: ignoresCase)
        guard syntax.size <= RulesLimits.regexStates else { throw RegexError(reason: "too large") }
        let graph = StateGraph(syntax)
        let sets = StateSets(graph, isFloating: !anchoredStart)
        if let table = Self.table(sets, maxStates: maxTableStates) {
            matcher = .table(table)
        } else if graph.states.count <= RulesLimits.regexSimulatedStates {
            matcher = .sets(sets)
        } else {
            throw RegexError(reason: "too large")
        }
    }

    /// Whether the last unit is an unescaped `$`.
    private static func endsWithAnchor(_ units: ArraySlice<UInt16>) -> Bool {
        guard units.last == UInt16(UInt8(ascii: "$")) else { return false }
        let escapes = units.dropLast().reversed().prefix { $0 == UInt16(UInt8(ascii: "\\")) }.count
        return escapes % 2 == 0
    }

    /// The deterministic table, or nil when it would be too large.
    private static func table(_ source: StateSets, maxStates: Int) -> Table? {
        var sets = source
        let width = sets.classes.count
        var numbers: [[Int32]: Int32] = [:]
        var pending: [[Int32]] = []
        var (next, accepting): ([Int32], [Bool]) = ([], [])

        func number(_ set: [Int32]) -> Int32 {
            if set.isEmpty { return -1 }
            if let known = numbers[set] { return known }
            let number = Int32(pending.count)
            numbers[set] = number
            pending.append(set)
            accepting.append(StateSets.accepts(set))
            return number
        }

        _ = number(sets.initial())
        var current = 0
        var reached: [Int32] = []
        while current < pending.count {
            let set = pending[current]
            for unitClass in 0..<width {
                sets.step(set, unitClass, into: &reached)
                reached.sort()
                next.append(number(reached))
            }
            current += 1
            guard pending.count <= maxStates, sets.work <= maxWork else { return nil }
        }
        return Table(classes: sets.classes, next: next, accepting: accepting)
    }

    /// Whether the text contains a match, or is one if the pattern is anchored. O(length); simulated O(length × states)
    /// - Parameter work: the remaining text work, from `RulesLimits.textWork`; the work done is subtracted.
    /// - Throws: `.tooMuchWork`; `.textTooLong` if the text exceeds even the full budget.
    func matches(_ text: TextCursor, work: inout Int) throws(FaultReason) -> Bool {
        let cost = text.utf8Count * unitWork
        guard cost <= work else { throw cost > RulesLimits.textWork ? .textTooLong : .tooMuchWork }
        let (isMatch, read) = text.withBytes { bytes in
            switch matcher {
            case .table(let table): match(bytes, table)
            case .sets(let sets): match(bytes, sets)
            }
        }
        work -= read * unitWork
        return isMatch
    }

    /// The most work per byte of a text.
    var unitWork: Int {
        switch matcher {
        case .table: 1
        case .sets(let sets): sets.graph.states.count * RulesLimits.regexStateWork
        }
    }

    /// The number of states that simulating a text visits, for tests; 0 for a table.
    func steps(_ text: Text) -> Int {
        guard case .sets(var sets) = matcher else { return 0 }
        let before = sets.work
        var state = sets.initial()
        var next: [Int32] = []
        for unit in text.string.utf16 {
            sets.step(state, sets.classes[unit], into: &next)
            swap(&state, &next)
        }
        return sets.work - before
    }

    /// The result, and the number of bytes read.
    private typealias Outcome = (isMatch: Bool, read: Int)

    private func match(_ bytes: UnsafeBufferPointer<UInt8>, _ table: Table) -> Outcome {
        let width = table.classes.count
        var state = 0
        var reader = UnitReader(bytes)
        while anchoredEnd || !table.accepting[state] {
            guard let unit = reader.next() else { return (table.accepting[state], bytes.count) }
            state = Int(table.next[state * width + table.classes[unit]])
            if state < 0 { return (false, reader.offset) }
        }
        return (true, reader.offset)
    }

    private func match(_ bytes: UnsafeBufferPointer<UInt8>, _ source: StateSets) -> Outcome {
        var sets = source
        var state = sets.initial()
        var next: [Int32] = []
        var reader = UnitReader(bytes)
        while anchoredEnd || !StateSets.accepts(state) {
            guard let unit = reader.next() else { return (StateSets.accepts(state), bytes.count) }
            sets.step(state, sets.classes[unit], into: &next)
            swap(&state, &next)
            if state.isEmpty { return (false, reader.offset) }
        }
        return (true, reader.offset)
    }
}

/// The UTF-16 code units of well-formed UTF-8.
struct UnitReader {
    private let bytes: UnsafeBufferPointer<UInt8>
    /// Number of bytes read.
    private(set) var offset = 0
    private var trailing: UInt16 = 0

    init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    @inline(__always)
    mutating func next() -> UInt16? {
        guard offset < bytes.count else { return readTrailing() }
        if trailing != 0 { return readTrailing() }
        let byte = bytes[offset]
        if byte < 0x80 {
            offset &+= 1
            return UInt16(byte)
        }
        return wide(byte)
    }

    private mutating func readTrailing() -> UInt16? {
        guard trailing != 0 else { return nil }
        defer { trailing = 0 }
        return trailing
    }

    private mutating func wide(_ first: UInt8) -> UInt16 {
        let width = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2
        var value = UInt32(first & (0x7F >> UInt8(width)))
        for i in 1..<width where offset + i < bytes.count { value = value << 6 | UInt32(bytes[offset + i] & 0x3F) }
        offset = min(offset + width, bytes.count)
        guard value >= 0x10000 else { return UInt16(truncatingIfNeeded: value) }
        trailing = UInt16(0xDC00 | (value - 0x10000) & 0x3FF)
        return UInt16(truncatingIfNeeded: 0xD800 | (value - 0x10000) >> 10)
    }
}
