/// The possible outcomes of a boolean under partial knowledge. A failure is one of them only where the knowledge causes it.
///
/// Each outcome is paired with what the same data would yield whichever way the suspected comparisons came out. Without suspects both are
/// equal.
struct PossibleOutcomes: OptionSet {
    enum Outcome: UInt16, CaseIterable { case yes, no, fails }

    /// One bit for each pair.
    let rawValue: UInt16

    static let yes = pair(.yes, .yes)
    static let no = pair(.no, .no)
    static let fails = pair(.fails, .fails)
    static let unknown: PossibleOutcomes = [.yes, .no]

    static func pair(_ actual: Outcome, _ otherwise: Outcome) -> PossibleOutcomes {
        PossibleOutcomes(rawValue: 1 << (actual.rawValue * 3 + otherwise.rawValue))
    }

    func canBe(_ outcome: Outcome) -> Bool { Outcome.allCases.contains { contains(.pair(outcome, $0)) } }

    private func canOtherwiseBe(_ outcome: Outcome) -> Bool { Outcome.allCases.contains { contains(.pair($0, outcome)) } }

    /// Whether it can be this outcome only because of the suspects.
    func suspectsDecide(_ outcome: Outcome) -> Bool { Outcome.allCases.contains { $0 != outcome && contains(.pair(outcome, $0)) } }

    /// The outcomes of a suspect itself: otherwise it is true or false.
    var suspected: PossibleOutcomes {
        var found: PossibleOutcomes = []
        for outcome in Outcome.allCases where canBe(outcome) { found.formUnion([.pair(outcome, .yes), .pair(outcome, .no)]) }
        return found
    }

    /// The outcomes of `self ? a : b`.
    func choosing(_ a: PossibleOutcomes, _ b: PossibleOutcomes) -> PossibleOutcomes {
        var found = intersection(.fails)
        if contains(.yes) { found.formUnion(a) }
        if contains(.no) { found.formUnion(b) }
        guard !isSubset(of: [.yes, .no, .fails]) else { return found }
        func branch(_ outcome: Outcome) -> PossibleOutcomes {
            switch outcome {
            case .yes: a
            case .no: b
            case .fails: .fails
            }
        }
        for actual in Outcome.allCases {
            for otherwise in Outcome.allCases where otherwise != actual && contains(.pair(actual, otherwise)) {
                for x in Outcome.allCases where branch(actual).canBe(x) {
                    for y in Outcome.allCases where branch(otherwise).canOtherwiseBe(y) { found.insert(.pair(x, y)) }
                }
            }
        }
        return found
    }
}

extension PossibleOutcomes {
    init(_ value: Bool) { self = value ? .yes : .no }
}
