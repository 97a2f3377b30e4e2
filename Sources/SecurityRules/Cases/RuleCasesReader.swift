import JSONTree

extension RuleCases {
    /// Reads cases.
    /// - Parameter file: returns the contents of a file that `"data"` names instead of holding a tree; nil if there is no such file.
    /// - Throws: all faults, in the order of the text.
    public init(parsing text: String, file: (String) -> String? = { _ in nil }) throws(RulesErrors) {
        var reader = RuleCasesReader(text: RulesText(text))
        cases = try reader.read(file)
        neverFalse = reader.neverFalse
    }
}

/// Converts the JSON of a cases file into cases and records every fault.
private struct RuleCasesReader {
    let text: RulesText
    private var errors: [LocatedError] = []

    private var users: [String: Node] = [:]
    private var data = Node.null
    private var now: Int64 = 0
    private(set) var neverFalse: [String] = []

    init(text: RulesText) { self.text = text }

    mutating func read(_ file: (String) -> String?) throws(RulesErrors) -> [RuleCase] {
        var cases: [RuleCase] = []
        do throws(LocatedError) {
            var parser = LocatedJSONParser(text)
            let members = try object(try parser.parse(), "Cases are an object with 'cases', and 'data', 'users' and 'now' if needed.")
            try only(members, ["now", "users", "data", "neverFalse", "cases"])
            if let now = value("now", members) { self.now = try integer(now) }
            if let users = value("users", members) {
                for user in try object(users, "'users' is an object of names and what 'auth' is for them.") {
                    self.users[user.name.value] = try claims(user.value)
                }
            }
            if let data = value("data", members) { self.data = try tree(data, file) }
            if let names = value("neverFalse", members) {
                guard case .array(let elements) = names.value else {
                    throw LocatedError(offset: names.offset, message: "'neverFalse' is a list of rules such as '/users/$uid.validate'.")
                }
                for element in elements {
                    guard case .string(let name) = element.value else {
                        throw LocatedError(offset: element.offset, message: "Expected a rule such as '/users/$uid.validate'.")
                    }
                    neverFalse.append(name.value)
                }
            }
            guard let list = value("cases", members), case .array(let elements) = list.value else {
                throw LocatedError(offset: value("cases", members)?.offset ?? 0, message: "Expected 'cases', a list.")
            }
            guard !elements.isEmpty else {
                throw LocatedError(offset: value("cases", members)?.offset ?? 0, message: "There is no case: nothing would be tested.")
            }
            for element in elements {
                do throws(LocatedError) { cases.append(try self.case(element)) } catch { errors.append(error) }
            }
        } catch { errors.append(error) }
        guard errors.isEmpty else { throw RulesErrors(errors, in: text) }
        return cases
    }

    private mutating func tree(_ json: LocatedJSON, _ file: (String) -> String?) throws(LocatedError) -> Node {
        guard case .string(let name) = json.value else { return try node(json) }
        guard let contents = file(name.value) else { throw LocatedError(offset: json.offset, message: "There is no file '\(name.value)'.") }
        guard let node = try? Node(json: contents) else { throw LocatedError(offset: json.offset, message: "'\(name.value)' is not JSON.") }
        return node
    }

    // MARK: A case

    private static let operations = ["read", "query", "count", "write", "update", "deleteAccount"]
    private static let parameters = [
        "orderByKey", "orderByValue", "orderByPriority", "orderByChild", "startAt", "endAt", "equalTo", "limitToFirst", "limitToLast",
        "near", "radius", "within", "limit", "where",
    ]

    private mutating func `case`(_ json: LocatedJSON) throws(LocatedError) -> RuleCase {
        let members = try object(json, "A case is an object.")
        let others = ["name", "as", "given", "now", "value", "values", "expect", "refusedBy", "then", "sends", "at", "advance"]
        try only(members, Self.operations + Self.parameters + others)
        let found = members.filter { Self.operations.contains($0.name.value) }
        guard let operation = found.first, found.count == 1 else {
            throw LocatedError(
                offset: json.offset,
                message: "A case has one of 'read', 'query', 'count', 'write' and 'update', with a path, or 'deleteAccount'.")
        }
        let now = try value("now", members).map { json throws(LocatedError) in try integer(json) } ?? self.now
        let deleted = try deletedAccount(operation)
        let path = try deleted == nil ? path(operation.value) : .root
        var before = data
        if let given = value("given", members) {
            for change in try object(given, "'given' is an object of paths and values.") {
                before.set(try node(change.value, now), at: try self.path(change.name, change.name.quote))
            }
        }
        let decided: RuleCase.Operation
        if let deleted {
            decided = .accountDeletion(deleted)
        } else {
            decided = try self.operation(operation.name.value, path, members, json.offset, now)
        }
        let (line, column) = text.position(at: json.offset)
        let expectation = try expectation(members, json.offset)
        var then: [(path: Path, value: Node)] = []
        if let given = value("then", members) {
            guard expectation == .allowed, ["write", "update", "deleteAccount"].contains(operation.name.value) else {
                throw LocatedError(
                    offset: given.offset, message: "'then' says what an allowed 'write' or 'update', or a 'deleteAccount', has stored.")
            }
            for place in try object(given, "'then' is an object of paths and values.") {
                then.append((try self.path(place.name, place.name.quote), try node(place.value, now)))
            }
        }
        let sends = try sends(members, isWrite: expectation == .allowed && ["write", "update", "deleteAccount"].contains(operation.name.value))
        let until = try until(members, now, isLookedAt: !then.isEmpty || sends != nil)
        return RuleCase(
            name: try name(members) ?? "\(operation.name.value) \(deleted ?? path.description)", line: line, column: column,
            operation: decided, expectation: expectation, then: then, sends: sends, data: before, auth: try auth(members, json.offset), now: now,
            until: until)
    }

    /// Reads `sends`: a list of objects, each with members that one delivery must have. An empty list: nothing is sent.
    private func sends(_ members: [LocatedJSON.Member], isWrite: Bool) throws(LocatedError) -> [Node]? {
        guard let sends = value("sends", members) else { return nil }
        guard isWrite else {
            throw LocatedError(
                offset: sends.offset, message: "'sends' says what an allowed 'write' or 'update', or a 'deleteAccount', has sent.")
        }
        guard case .array(let elements) = sends.value else {
            throw LocatedError(offset: sends.offset, message: "'sends' is a list such as [{\"devices\": \"/devices/ana\", \"title\": \"Lunch\"}].")
        }
        var found: [Node] = []
        for element in elements {
            let names = ["devices", "title", "body", "url", "tag", "urgent", "combine", "wait", "escalation", "webhook", "path", "before", "after"]
            try only(try object(element, "Each of 'sends' is an object."), names)
            var node = try node(element)
            // Places are written with and without the first slash.
            for name in ["devices", "path"] as [Key] {
                if case .string(let text) = node.child(name).leaf, !text.string.hasPrefix("/") { node.set(.string("/" + text.string), at: Path([name])) }
            }
            guard node.hasChildren else { throw LocatedError(offset: element.offset, message: "Each of 'sends' names something.") }
            found.append(node)
        }
        return found
    }

    /// The id of the account that a case deletes; nil for other cases.
    private func deletedAccount(_ member: LocatedJSON.Member) throws(LocatedError) -> String? {
        guard member.name.value == "deleteAccount" else { return nil }
        guard case .string(let uid) = member.value.value, !uid.value.isEmpty else {
            throw LocatedError(offset: member.value.offset, message: "'deleteAccount' takes the id of an account.")
        }
        return uid.value
    }

    /// `at` is an absolute time, `advance` a time after the write.
    private func until(_ members: [LocatedJSON.Member], _ now: Int64, isLookedAt: Bool) throws(LocatedError) -> Int64? {
        let found = members.filter { ["at", "advance"].contains($0.name.value) }
        guard let member = found.first else { return nil }
        let name = member.name.value
        guard isLookedAt else {
            throw LocatedError(offset: member.name.quote, message: "'\(name)' says when 'then' and 'sends' are checked, and both are missing.")
        }
        guard found.count == 1 else {
            throw LocatedError(offset: member.name.quote, message: "'\(name)' says when 'then' and 'sends' are checked, either 'at' or 'advance'.")
        }
        let ms = try integer(member.value)
        let (until, isBeyond) = name == "at" ? (ms, false) : now.addingReportingOverflow(ms)
        guard !isBeyond, until >= now else { throw LocatedError(offset: member.value.offset, message: "The clock goes on from \(now).") }
        return until
    }

    private func operation(
        _ kind: String, _ path: Path, _ members: [LocatedJSON.Member], _ offset: Int, _ now: Int64
    ) throws(LocatedError) -> RuleCase.Operation {
        for member in members where Self.parameters.contains(member.name.value) && kind != "query" && kind != "count" {
            throw LocatedError(offset: member.name.quote, message: "'\(member.name.value)' belongs to a 'query' or a 'count'.")
        }
        switch kind {
        case "read": return .read(path, .none)
        case "query": return .read(path, try query(members))
        case "count": return .count(path, try query(members))
        case "write":
            guard let value = value("value", members) else {
                throw LocatedError(offset: offset, message: "A 'write' has a 'value'; null removes.")
            }
            return .write([(path, try node(value, now))])
        default:
            guard let values = value("values", members) else {
                throw LocatedError(offset: offset, message: "An 'update' has 'values', an object of paths and values.")
            }
            var writes: [(path: Path, value: Node)] = []
            for member in try object(values, "'values' is an object of paths and values.") {
                writes.append((path.appending(try self.path(member.name, member.name.quote)), try node(member.value, now)))
            }
            return .write(writes)
        }
    }

    private func query(_ members: [LocatedJSON.Member]) throws(LocatedError) -> QueryVariables {
        var query = QueryVariables()
        for member in members where Self.parameters.contains(member.name.value) {
            switch (member.name.value, member.value.value) {
            case ("orderByKey", .bool(let flag)): query.orderByKey = flag
            case ("orderByValue", .bool(let flag)): query.orderByValue = flag
            case ("orderByPriority", .bool(let flag)): query.orderByPriority = flag
            case ("orderByChild", .string(let child)): query.orderByChild = child.value
            case ("startAt", _): query.startAt = try node(member.value)
            case ("endAt", _): query.endAt = try node(member.value)
            case ("equalTo", _): query.equalTo = try node(member.value)
            case ("limitToFirst", .number(.int(let count))): query.limitToFirst = Int(count)
            case ("limitToLast", .number(.int(let count))): query.limitToLast = Int(count)
            case ("near", .bool(let flag)): query.near = flag
            case ("radius", .number(.int(let metres))): query.radius = Double(metres)
            case ("radius", .number(.double(let metres))): query.radius = metres
            case ("within", .string(let kind)) where QueryVariables.kinds.contains(kind.value): query.within = kind.value
            case ("limit", .number(.int(let count))): query.nearest = Int(count)
            case ("where", .object(let conditions)):
                for condition in conditions {
                    query.conditions[try path(condition.name, condition.name.quote)] = try leaf(condition.value)
                }
            case ("near", _): throw LocatedError(offset: member.value.offset, message: "'near' is true or false.")
            case ("within", _): throw LocatedError(offset: member.value.offset, message: "'within' is \"box\", \"polygon\" or \"circle\".")
            case ("where", _):
                throw LocatedError(offset: member.value.offset, message: "'where' is an object such as {\"status\": \"open\"}.")
            default: throw LocatedError(offset: member.value.offset, message: "'\(member.name.value)' cannot be that.")
            }
        }
        return query.asSeen
    }

    private func leaf(_ json: LocatedJSON) throws(LocatedError) -> Node {
        let node = try node(json)
        guard !node.hasChildren else { throw LocatedError(offset: json.offset, message: "A condition names no object.") }
        return node
    }

    private func expectation(_ members: [LocatedJSON.Member], _ offset: Int) throws(LocatedError) -> RuleCase.Expectation {
        guard let expect = value("expect", members) else { throw LocatedError(offset: offset, message: "A case has 'expect'.") }
        var by: String?
        if let rule = value("refusedBy", members) {
            guard case .string(let text) = rule.value else { throw LocatedError(offset: rule.offset, message: "'refusedBy' names a rule.") }
            by = text.value
        }
        switch expect.value {
        case .string(let word) where word.value == "allow" && by == nil: return .allowed
        case .string(let word) where word.value == "deny": return .denied(by: by)
        default: throw LocatedError(offset: expect.offset, message: "Expected \"allow\" or, also with 'refusedBy', \"deny\".")
        }
    }

    private func auth(_ members: [LocatedJSON.Member], _ offset: Int) throws(LocatedError) -> Node {
        guard let who = value("as", members) else { return .null }
        switch who.value {
        case .null: return .null
        case .string(let name):
            guard let user = users[name.value] else {
                throw LocatedError(offset: who.offset, message: "There is no '\(name.value)' in 'users'.")
            }
            return user
        default: return try claims(who)
        }
    }

    private func name(_ members: [LocatedJSON.Member]) throws(LocatedError) -> String? {
        guard let name = value("name", members) else { return nil }
        guard case .string(let text) = name.value else { throw LocatedError(offset: name.offset, message: "'name' is a text.") }
        return text.value
    }

    // MARK: Values

    private func value(_ name: String, _ members: [LocatedJSON.Member]) -> LocatedJSON? { members.first { $0.name.value == name }?.value }

    private func object(_ json: LocatedJSON, _ message: String) throws(LocatedError) -> [LocatedJSON.Member] {
        guard case .object(let members) = json.value else { throw LocatedError(offset: json.offset, message: message) }
        return members
    }

    private func only(_ members: [LocatedJSON.Member], _ names: [String]) throws(LocatedError) {
        var seen: Set<String> = []
        for member in members {
            let name = member.name.value
            guard names.contains(name) else {
                if UnsupportedKeys.ofCase.contains(name) {
                    throw LocatedError(offset: member.name.quote, message: UnsupportedKeys.message(name))
                }
                let hint = Spelling.nearest(name, in: names).map { " Did you mean '\($0)'?" } ?? ""
                throw LocatedError(offset: member.name.quote, message: "Unknown key '\(name)'.\(hint)")
            }
            guard seen.insert(name).inserted else { throw LocatedError(offset: member.name.quote, message: "Duplicate key '\(name)'.") }
        }
    }

    private func integer(_ json: LocatedJSON) throws(LocatedError) -> Int64 {
        guard case .number(.int(let value)) = json.value else {
            throw LocatedError(offset: json.offset, message: "Expected a whole number.")
        }
        return value
    }

    private func path(_ json: LocatedJSON) throws(LocatedError) -> Path {
        guard case .string(let text) = json.value else {
            throw LocatedError(offset: json.offset, message: "Expected a path such as \"/a/b\".")
        }
        return try path(text, json.offset)
    }

    private func path(_ text: LocatedString, _ offset: Int) throws(LocatedError) -> Path {
        guard let path = try? Path(parsing: text.value) else { throw LocatedError(offset: offset, message: "'\(text.value)' is no path.") }
        return path
    }

    /// The value of `auth`: any JSON, like the claims of a token. Names need not be legal keys, and none is special.
    private func claims(_ json: LocatedJSON) throws(LocatedError) -> Node {
        var children: [(Key, Node)] = []
        switch json.value {
        case .array(let elements): for (i, element) in elements.enumerated() { children.append((Key(index: i), try claims(element))) }
        case .object(let members):
            for member in members {
                guard member.name.value.utf8.count <= Key.maxBytes else {
                    throw LocatedError(offset: member.name.quote, message: "The name of a claim has at most \(Key.maxBytes) bytes.")
                }
                children.append((Key(member.name.value), try claims(member.value)))
            }
        default: return try node(json)
        }
        return .object(children)
    }

    /// A value; `{".sv": "timestamp"}` resolves to the case's time.
    private func node(_ json: LocatedJSON, _ now: Int64? = nil) throws(LocatedError) -> Node {
        switch json.value {
        case .null: return .null
        case .bool(let value): return .bool(value)
        case .number(let node): return node
        case .string(let text): return .string(text.value)
        case .array(let elements):
            var children: [(Key, Node)] = []
            for (i, element) in elements.enumerated() { children.append((Key(index: i), try node(element, now))) }
            return .object(children)
        case .object(let members):
            if let server = value(".sv", members), case .string(let name) = server.value, name.value == "timestamp" {
                return .int(now ?? self.now)
            }
            let priority = try value(".priority", members).map { json throws(LocatedError) in try node(json, now) } ?? .null
            if let leaf = value(".value", members) { return try node(leaf, now).with(priority: priority) }
            var children: [(Key, Node)] = []
            for member in members where member.name.value != ".priority" {
                guard Key(member.name.value).isValid else {
                    throw LocatedError(offset: member.name.quote, message: "'\(member.name.value)' cannot be a key.")
                }
                children.append((Key(member.name.value), try node(member.value, now)))
            }
            return .object(children, priority: priority)
        }
    }
}
