import HubEngine
import JSONTree
import SecurityRules

/// One operation to be explained to an administrator, in the format of a case of `vigla rules test`.
///
///     {"as":{"uid":"ada"},"write":"/users/ada/name","value":"Ada"}
///     {"as":null,"query":"/users","orderByChild":"name","limitToFirst":5}
struct ExplainRequest: Sendable {
    enum Operation: Sendable {
        case read(Path, QueryVariables)
        case count(Path, QueryVariables)
        case write([TreeWrite])
    }

    var operation: Operation
    /// The value of `auth`; null for a signed-out client.
    var auth: Node
    /// ms since the epoch; nil for the hub's time.
    var now: Int64?

    /// Why a text is malformed.
    struct Fault: Error { let text: String }

    init(_ body: [UInt8]) throws(Fault) {
        let read = body.withUnsafeBytes { bytes -> Result<Members, Fault> in
            do throws(JSONError) {
                var members = Members()
                if let fault = try members.read(JSONReader(bytes)) { return .failure(fault) }
                return .success(members)
            } catch { return .failure(Fault(text: error.isMalformed ? "This is not JSON at byte \(error.offset + 1)." : "\(error)")) }
        }
        let members = try read.get()
        guard let place = members.place else {
            throw Fault(text: "Name one of \"read\", \"query\", \"count\", \"write\" and \"update\", with a path.")
        }
        auth = members.auth
        now = members.now
        if members.isQuery, place.kind != .query, place.kind != .count {
            throw Fault(text: "Orders, bounds and limits belong to a \"query\" or a \"count\".")
        }
        switch place.kind {
        case .read, .query: operation = .read(place.path, members.query.asSeen)
        case .count: operation = .count(place.path, members.query.asSeen)
        case .write:
            guard let value = members.value else { throw Fault(text: "A \"write\" has a \"value\"; null removes.") }
            operation = .write([TreeWrite(place.path, value)])
        case .update:
            guard let values = members.values else { throw Fault(text: "An \"update\" has \"values\", an object of paths and values.") }
            let writes = values.map { $0.below(place.path) }
            let places = writes.map(\.path).sorted()
            for (path, next) in zip(places, places.dropFirst()) where path.contains(next) {
                throw Fault(text: "One place of the update contains another: \(path), \(next).")
            }
            operation = .write(writes)
        }
    }

    private struct Members {
        enum Kind: String { case read, query, count, write, update }

        var place: (kind: Kind, path: Path)?
        var auth = Node.null
        var now: Int64?
        var value: WriteValue?
        var values: [TreeWrite]?
        var query = QueryVariables()
        var isQuery = false
        private var names: Set<String> = []

        mutating func read(_ start: consuming JSONReader) throws(JSONError) -> Fault? {
            var reader = start
            guard try reader.peek() == .object else {
                return Fault(text: "Expected an object such as {\"as\": {\"uid\": \"ada\"}, \"read\": \"/users/ada\"}.")
            }
            try reader.beginObject()
            while let name = try reader.nextName() {
                guard names.insert(name).inserted else { return Fault(text: "\"\(name.prefix(64))\" stands twice.") }
                if let fault = try member(name, &reader) { return fault }
            }
            try reader.expectEnd()
            return nil
        }

        private mutating func member(_ name: String, _ reader: inout JSONReader) throws(JSONError) -> Fault? {
            if let kind = Kind(rawValue: name) {
                guard place == nil else { return Fault(text: "Name only one of \"read\", \"query\", \"count\", \"write\" and \"update\".") }
                guard try reader.peek() == .string, let path = try? Path(parsing: try reader.string()) else {
                    return Fault(text: "\"\(name)\" takes a path such as \"/users/ada\".")
                }
                place = (kind, path)
                return nil
            }
            switch name {
            case "as":
                guard [.object, .null].contains(try reader.peek()) else {
                    return Fault(text: "\"as\" is auth, such as {\"uid\": \"ada\", \"token\": {}}, or null for a signed-out caller.")
                }
                auth = try reader.claims()
            case "now":
                guard try reader.peek() == .number, case .int(let ms) = try reader.number() else {
                    return Fault(text: "\"now\" is a time in ms since 1970.")
                }
                now = ms
            case "value": value = try reader.writeValue()
            case "values": return try entries(&reader)
            default: return try parameter(name, &reader)
            }
            return nil
        }

        private mutating func entries(_ reader: inout JSONReader) throws(JSONError) -> Fault? {
            guard try reader.peek() == .object else { return Fault(text: "\"values\" is an object of paths and values.") }
            var writes: [TreeWrite] = []
            try reader.beginObject()
            while let name = try reader.nextName() {
                guard let path = try? Path(parsing: name), !path.isRoot else {
                    return Fault(text: "\"\(name.prefix(64))\" is no path below the update's.")
                }
                writes.append(TreeWrite(path, try reader.writeValue(depth: path.depth)))
            }
            values = writes
            return nil
        }

        private mutating func parameter(_ name: String, _ reader: inout JSONReader) throws(JSONError) -> Fault? {
            let value = try reader.claims()
            isQuery = true
            switch (name, value) {
            case ("orderByKey", .bool(let flag)): query.orderByKey = flag
            case ("orderByValue", .bool(let flag)): query.orderByValue = flag
            case ("orderByPriority", .bool(let flag)): query.orderByPriority = flag
            case ("orderByChild", .string(let child)): query.orderByChild = child.string
            case ("startAt", _) where !value.hasChildren: query.startAt = value
            case ("endAt", _) where !value.hasChildren: query.endAt = value
            case ("equalTo", _) where !value.hasChildren: query.equalTo = value
            case ("limitToFirst", .int(let count)) where count > 0: query.limitToFirst = Int(count)
            case ("limitToLast", .int(let count)) where count > 0: query.limitToLast = Int(count)
            case ("near", .bool(let flag)): query.near = flag
            case ("radius", .int(let metres)) where metres > 0: query.radius = Double(metres)
            case ("radius", .double(let metres)) where metres > 0: query.radius = metres
            case ("within", .string(let kind)) where QueryVariables.kinds.contains(kind.string): query.within = kind.string
            case ("limit", .int(let count)) where count > 0: query.nearest = Int(count)
            case ("where", _) where value.hasChildren || value.isNull:
                for (name, constant) in value.children {
                    guard let path = try? Path(parsing: name.string), !path.isRoot, !constant.hasChildren else {
                        return Fault(text: "\"where\" is an object of paths below each child, and their values.")
                    }
                    query.conditions[path] = constant
                }
            case ("orderByKey", _), ("orderByValue", _), ("orderByPriority", _), ("orderByChild", _), ("startAt", _), ("endAt", _),
                ("equalTo", _),
                ("limitToFirst", _), ("limitToLast", _), ("near", _), ("radius", _), ("within", _), ("limit", _), ("where", _):
                return Fault(text: "\"\(name)\" cannot be that.")
            default: return Fault(text: "\"\(name.prefix(64))\" is not known here.")
            }
            return nil
        }
    }
}
