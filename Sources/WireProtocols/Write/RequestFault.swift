import JSONTree
import LiveQueries

/// Why a well-formed request is refused while its connection stays open. Each protocol formats it differently.
enum RequestFault: Equatable {
    /// The data cannot be stored.
    case data(JSONError)
    /// The path is not a valid place.
    case path(PathError)
    /// A member that the operation needs is missing or of the wrong type.
    case member(String)
    /// A list that must not be empty is.
    case empty(String)
    /// A member that decides how others are parsed is repeated: the checked value could differ from the one used.
    case repeated(String)
    /// The data of an update is not an object.
    case notAnObject
    /// One place of an update contains another.
    case overlap(Path, Path)
    /// A query member has an invalid value.
    case query(String, member: String? = nil)
    /// A member exceeds a limit.
    case tooBig(String, member: String)
    /// No data could make the rules allow the write.
    case denied
    /// A feature that this server does not support (yet).
    case unsupported(String, member: String? = nil)

    /// One sentence for the client's developer (contract §7.5 where it has one).
    var text: String {
        switch self {
        case .data(let error): error.description
        case .path(.invalidKey): "Invalid path: Invalid token in path"
        case .path(.tooDeep): "Invalid path: more than \(Path.maxDepth) levels"
        case .member(let name): "Invalid request: \"\(name)\" is missing or of the wrong type"
        case .empty(let name): "Invalid request: \"\(name)\" is empty"
        case .repeated(let name): "Invalid request: \"\(name)\" stands twice"
        case .notAnObject:
            "Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?"
        case .overlap(let ancestor, let descendant):
            "Invalid data; contains a path \(ancestor) that is ancestor of another path \(descendant)"
        case .query(let text, _), .tooBig(let text, _): text
        case .denied: "Permission denied"
        case .unsupported(let what, _): "\(what) is not supported"
        }
    }

    /// The member of the request at fault; nil if it is the written data.
    var member: String? {
        switch self {
        case .member(let name), .empty(let name), .repeated(let name): name
        case .query(_, let name), .unsupported(_, let name): name
        case .tooBig(_, let name): name
        case .path: "path"
        case .data, .notAnObject, .overlap: "value"
        case .denied: nil
        }
    }

    var isTooBig: Bool {
        switch self {
        case .data(.stringTooLong), .data(.overBudget), .tooBig: true
        default: false
        }
    }

    /// Whether the data takes more memory than the budget allows.
    var isOverBudget: Bool { if case .data(.overBudget) = self { true } else { false } }

    /// Whether the request's remaining values are skipped.
    var endsReading: Bool { self == .denied || isOverBudget }

    /// The fault of a `where`, a `near` or a `within`.
    /// - Parameter prefix: the member that contains it, with a dot: `query.`
    init(_ fault: QueryFault, below prefix: String) {
        let (text, member) = ("\(prefix)\(fault.description)", prefix + fault.member)
        switch fault.reason {
        case .malformed: self = .query(text, member: member)
        case .tooBig: self = .tooBig(text, member: member)
        }
    }
}

extension JSONReader {
    /// Parses one value. A value that is JSON but refused is skipped, and the first such fault recorded.
    mutating func optional<Value>(
        _ fault: inout RequestFault?, _ read: (inout JSONReader) throws(JSONError) -> Value
    ) throws(JSONError) -> Value? {
        let start = self
        do throws(JSONError) {
            return try read(&self)
        } catch {
            if error.isMalformed { throw error }
            fault = fault ?? .data(error)
            self = start
            try skipValue()
            return nil
        }
    }

    /// The string value of member `name`; anything else is recorded as a fault and skipped.
    mutating func text(of name: String, _ fault: inout RequestFault?) throws(JSONError) -> String? {
        if try peek() == .string { return try string() }
        fault = fault ?? .member(name)
        try skipValue()
        return nil
    }

    /// The integer value of member `name`; anything else is recorded as a fault and skipped.
    mutating func integer(of name: String, _ fault: inout RequestFault?) throws(JSONError) -> Int64? {
        if try peek() == .number {
            if case .int(let value) = try number() { return value }
        } else {
            try skipValue()
        }
        fault = fault ?? .member(name)
        return nil
    }

    /// The path in member `name`; anything else is recorded as a fault and skipped.
    mutating func path(of name: String, _ fault: inout RequestFault?) throws(JSONError) -> Path? {
        guard let text = try text(of: name, &fault) else { return nil }
        do throws(PathError) { return try Path(parsing: text) } catch {
            fault = fault ?? .path(error)
            return nil
        }
    }

    /// The place in member `name`: a path that may end in `.priority`. Anything else is recorded as a fault and skipped.
    mutating func place(of name: String, _ fault: inout RequestFault?) throws(JSONError) -> TreePlace? {
        guard try peek() == .string else {
            fault = fault ?? .member(name)
            try skipValue()
            return nil
        }
        let parsed: Result<TreePlace, PathError> = try withString { text in
            do throws(PathError) { return .success(try TreePlace(parsing: text)) } catch { return .failure(error) }
        }
        switch parsed {
        case .success(let place): return place
        case .failure(let error):
            fault = fault ?? .path(error)
            return nil
        }
    }
}
