public import HTTPTypes
public import HubEngine
import JSONTree
public import SecurityRules

/// The result of a deploy or a dry run.
public enum RulesAnswer: Sendable {
    /// The rules are in force; after a dry run: they could be deployed.
    case accepted(RulesReport)
    /// The text is faulty; the previous rules stay in force.
    case refused(RulesErrors)
    /// The text is valid, but could not be put in force; the previous rules stay.
    case failed(RulesFailure)
}

public enum RulesFailure: Error, Sendable {
    case unknownNamespace(String)
    /// The rules could not be stored on disk.
    case notStored(String)
}

/// Details of accepted rules.
public struct RulesReport: Sendable {
    /// Warnings: valid rules that are probably a mistake.
    public var warnings: [RuleError]
    /// The difference to the rules that were in force.
    public var changes: RulesChanges
    public var keeps: Keeping
    /// Derived data that the rules define and that the hub is still computing in the background.
    public var pending: [DerivedKind] = []

    /// How long the rules stay in force.
    public enum Keeping: Sendable, Equatable {
        /// They were only checked.
        case nothing
        /// Until the hub stops, because it stores nothing on disk.
        case untilStop
        /// Across restarts.
        case stored
        /// Across restarts, until the file of `--rules` is changed.
        case storedUntilFileChanges(String)
    }
}

/// The difference between two rule sets, by the places of their keys with a dot, such as `/users/$uid.write` and `/posts.rate`. Each list
/// is in the order of its file.
public struct RulesChanges: Sendable, Equatable {
    public var added: [String] = []
    public var changed: [String] = []
    public var removed: [String] = []
    /// Whether the whole text is the same, comments and layout included.
    public var isTextSame = false

    init(from old: RuleSet, to new: RuleSet) {
        isTextSame = old.text == new.text
        if isTextSame { return }
        func parts(_ rules: RuleSet) -> [(name: String, text: String)] {
            rules.functions.map { ("function \($0.name)", $0.text) } + rules.declarations
        }
        let (before, after) = (parts(old), parts(new))
        let known = Dictionary(before) { first, _ in first }
        let present = Set(after.map(\.name))
        for part in after {
            if let text = known[part.name] {
                if text != part.text { changed.append(part.name) }
            } else {
                added.append(part.name)
            }
        }
        removed = before.map(\.name).filter { !present.contains($0) }
    }
}

extension RulesAnswer {
    public var status: HTTPResponse.Status {
        switch self {
        case .accepted: .ok
        case .refused: .badRequest
        case .failed(.unknownNamespace): .notFound
        case .failed(.notStored): .serviceUnavailable
        }
    }

    /// The response of the upload protocol (rules contract §2): `{"status":"ok"}`, or `{"error":"L:C: Message.\n…"}`.
    /// - Parameter details: adds the members that Vigla's own tools request (`?details=true`): `hints` of the faults, `warnings`,
    ///   `changes`, `kept`, `pending`.
    public func json(details: Bool) -> [UInt8] {
        let members: [JSONValue.Member] = switch self {
        case .accepted(let report): [.init("status", "ok")] + (details ? report.members : [])
        case .refused(let errors): [.init("error", .string(errors.description))] + (details ? [.init("faults", errors.errors.json)] : [])
        case .failed(.unknownNamespace(let name)): [.init("error", .string("Unknown namespace: \(name.prefix(64))"))]
        case .failed(.notStored(let reason)):
            [.init("error", .string("The rules were not stored, and those before stay in force: \(reason)"))]
        }
        return JSONValue.object(members).line
    }
}

extension RulesReport {
    /// Most names and warnings that are listed; further ones are only counted.
    private static let listed = 100

    fileprivate var members: [JSONValue.Member] {
        var differences: [JSONValue.Member] = []
        for (names, list) in [("added", changes.added), ("changed", changes.changed), ("removed", changes.removed)] {
            differences.add(names, .array(list.prefix(Self.listed).map(JSONValue.string)))
            differences.add(names + "Count", .int(Int64(list.count)))
        }
        differences.add("same", .bool(changes.isTextSame))
        var members: [JSONValue.Member] = [.init("warnings", warnings.prefix(Self.listed).json), .init("changes", .object(differences))]
        switch keeps {
        case .nothing: members.add("kept", "nothing")
        case .untilStop: members.add("kept", "untilStop")
        case .stored: members.add("kept", "stored")
        case .storedUntilFileChanges(let file):
            members.add("kept", "untilFileChanges")
            members.add("file", file)
        }
        members.add("pending", pending.json)
        return members
    }
}

extension DerivedReport {
    /// `{"pending":["counters"],"ms":812}`
    var json: JSONValue { ["pending": pending.json, "ms": .int(ms)] }
}

extension [DerivedKind] {
    fileprivate var json: JSONValue { .array(map { .string($0.rawValue) }) }
}

extension Sequence<RuleError> {
    /// `[{"line":1,"column":2,"message":"…","hint":"…"}]`
    var json: JSONValue {
        .array(map { fault in
            var members: [JSONValue.Member] = [
                .init("line", .int(Int64(fault.line))), .init("column", .int(Int64(fault.column))),
                .init("message", .string(fault.message)),
            ]
            members.add("hint", fault.hint)
            return .object(members)
        })
    }
}
