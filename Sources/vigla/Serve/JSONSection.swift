import Accounts
import JSONTree

/// An object in a settings file, read member by member; faults and unknown members are recorded with their place.
///
///     accounts.json: "google": "client-ids": expected a list of texts
struct JSONSection {
    /// The faults of one file.
    final class Faults {
        var lines: [String] = []
    }

    /// `accounts.json: "google"`
    let place: String
    private let faults: Faults
    private var members: [JSONValue.Member]

    init(_ value: JSONValue, place: String, faults: Faults) {
        self.place = place
        self.faults = faults
        members = value.members ?? []
        if value.members == nil { faults.lines.append("\(place): expected an object") }
    }

    /// Removes and returns a member; a repeated one is a fault.
    private mutating func removeMember(_ name: String) -> JSONValue? {
        let found = members.filter { $0.name == name }
        members.removeAll { $0.name == name }
        if found.count > 1 { addFault(name, "given more than once") }
        return found.first?.value
    }

    func addFault(_ name: String, _ fault: String) { faults.lines.append("\(place): \"\(name)\": \(fault)") }

    private mutating func value<Value>(_ name: String, _ expected: String, _ read: (JSONValue) -> Value?) -> Value? {
        guard let found = removeMember(name) else { return nil }
        let value = read(found)
        if value == nil { addFault(name, "expected \(expected)") }
        return value
    }

    mutating func flag(_ name: String) -> Bool? { value(name, "true or false", \.bool) }

    mutating func number(_ name: String, _ range: ClosedRange<Int>) -> Int? {
        value(name, "a whole number (\(range.lowerBound)…\(range.upperBound))") { value in
            if case .int(let number) = value, let number = Int(exactly: number), range.contains(number) { number } else { nil }
        }
    }

    mutating func text(_ name: String, _ expected: String = "a text") -> String? {
        value(name, expected) { $0.string.flatMap { $0.isEmpty ? nil : $0 } }
    }

    mutating func choice(_ name: String, _ choices: [String]) -> String? {
        value(name, choices.map { "\"\($0)\"" }.joined(separator: " or ")) { $0.string.flatMap { choices.contains($0) ? $0 : nil } }
    }

    mutating func texts(_ name: String) -> [String]? {
        value(name, "a list of texts") { value in
            let texts = value.elements?.compactMap { $0.string.flatMap { $0.isEmpty ? nil : $0 } }
            return texts?.count == value.elements?.count ? texts : nil
        }
    }

    mutating func section(_ name: String) -> JSONSection? {
        removeMember(name).map { JSONSection($0, place: "\(place): \"\(name)\"", faults: faults) }
    }

    /// A list of objects.
    mutating func sections(_ name: String) -> [JSONSection] {
        (value(name, "a list of objects", \.elements) ?? []).enumerated().map {
            JSONSection($1, place: "\(place): \"\(name)\"[\($0)]", faults: faults)
        }
    }

    /// The names of the remaining members, for objects with free names.
    var names: [String] { members.map(\.name) }

    /// Reports members that were not read as unknown.
    func end() {
        for member in members { faults.lines.append("\(place): there is no \"\(member.name)\" here") }
    }
}
