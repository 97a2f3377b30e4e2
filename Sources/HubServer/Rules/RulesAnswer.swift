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

/// The difference between two rule sets, by the places of their keys with a dot, such as `/users/$uid.write` and `/posts.rate`. Each list is
/// in the order of its file.
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
    /// - Parameter details: adds the members that Vigla's own tools request (`?details=true`): `hints` of the faults, `warnings`, `changes`, `kept`,
    ///   `pending`.
    public func json(details: Bool) -> [UInt8] {
        var writer = JSONWriter()
        switch self {
        case .accepted(let report):
            writer.raw("{\"status\":\"ok\"")
            if details { report.write(to: &writer) }
        case .refused(let errors):
            writer.raw("{\"error\":")
            writer.string(errors.description)
            if details {
                writer.raw(",\"faults\":")
                writer.faults(errors.errors)
            }
        case .failed(.unknownNamespace(let name)):
            writer.raw("{\"error\":")
            writer.string("Unknown namespace: \(name.prefix(64))")
        case .failed(.notStored(let reason)):
            writer.raw("{\"error\":")
            writer.string("The rules were not stored, and those before stay in force: \(reason)")
        }
        writer.raw("}\n")
        return writer.bytes
    }
}

extension RulesReport {
    /// Most names and warnings that are listed; further ones are only counted.
    private static let listed = 100

    fileprivate func write(to writer: inout JSONWriter) {
        writer.raw(",\"warnings\":")
        writer.faults(warnings.prefix(Self.listed))
        writer.raw(",\"changes\":{")
        for (i, list) in [(changes.added, "added"), (changes.changed, "changed"), (changes.removed, "removed")].enumerated() {
            if i > 0 { writer.raw(",") }
            writer.string(list.1)
            writer.raw(":[")
            for (i, name) in list.0.prefix(Self.listed).enumerated() {
                if i > 0 { writer.raw(",") }
                writer.string(name)
            }
            writer.raw("],")
            writer.string(list.1 + "Count")
            writer.raw(":")
            writer.int(Int64(list.0.count))
        }
        writer.raw(changes.isTextSame ? ",\"same\":true},\"kept\":" : ",\"same\":false},\"kept\":")
        switch keeps {
        case .nothing: writer.raw("\"nothing\"")
        case .untilStop: writer.raw("\"untilStop\"")
        case .stored: writer.raw("\"stored\"")
        case .storedUntilFileChanges(let file):
            writer.raw("\"untilFileChanges\",\"file\":")
            writer.string(file)
        }
        writer.raw(",\"pending\":")
        writer.pending(pending)
    }
}

extension DerivedReport {
    /// `{"pending":["counters"],"ms":812}`
    var json: [UInt8] {
        var writer = JSONWriter()
        writer.raw("{\"pending\":")
        writer.pending(pending)
        writer.raw(",\"ms\":")
        writer.int(ms)
        writer.raw("}\n")
        return writer.bytes
    }
}

extension JSONWriter {
    fileprivate mutating func pending(_ kinds: [DerivedKind]) {
        raw("[")
        for (i, kind) in kinds.enumerated() {
            if i > 0 { raw(",") }
            string(kind.rawValue)
        }
        raw("]")
    }

    /// `[{"line":1,"column":2,"message":"…","hint":"…"}]`
    mutating func faults(_ faults: some Sequence<RuleError>) {
        raw("[")
        for (i, fault) in faults.enumerated() {
            raw(i > 0 ? ",{\"line\":" : "{\"line\":")
            int(Int64(fault.line))
            raw(",\"column\":")
            int(Int64(fault.column))
            raw(",\"message\":")
            string(fault.message)
            if let hint = fault.hint {
                raw(",\"hint\":")
                string(hint)
            }
            raw("}")
        }
        raw("]")
    }
}
