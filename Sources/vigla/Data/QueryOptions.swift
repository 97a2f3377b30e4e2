import ArgumentParser
import JSONTree
import LiveQueries
import ViglaClient
import WireProtocols

/// The query for a place's children, as in REST.
struct QueryOptions: ParsableArguments {
    @Option(help: ArgumentHelp(
        "Order: key, value, priority or a path in each child, such as score (the rules need .indexOn for value and paths).",
        valueName: "order"))
    var orderBy: String?
    // Unconditional: a value may begin with a dash, such as -5.
    @Option(parsing: .unconditional, help: ArgumentHelp("First value in that order; JSON, or a text as it stands.", valueName: "value"))
    var start: String?
    @Option(parsing: .unconditional, help: ArgumentHelp("Last value.", valueName: "value")) var end: String?
    @Option(parsing: .unconditional, help: ArgumentHelp("The only value.", valueName: "value")) var equal: String?
    @Option(parsing: .unconditional, help: ArgumentHelp("So many from the start.", valueName: "number")) var limit: Int?
    @Option(parsing: .unconditional, help: ArgumentHelp("So many from the end.", valueName: "number")) var last: Int?
    @Option(name: .customLong("where"), help: ArgumentHelp(
        "Only children that meet this condition; may be repeated: 'status == open', with == != < <= > >=, 'kind in [\"a\",\"b\"]', "
            + "'tags has red' (a child of that name), 'name prefix An'; '.value' is the child's own value.", valueName: "condition"))
    var conditions: [String] = []
    // Unconditional: a southern latitude begins with a dash.
    @Option(parsing: .unconditional, help: ArgumentHelp(
        "Only children within so many metres of a place: lat,lng,radius or lat,lng,radius,limit; lat,lng,,limit for the nearest. Ordered by "
            + "distance, unless --order-by is given (the rules need .geoIndex).", valueName: "lat,lng,radius"))
    var near: String?
    // Unconditional: a southern latitude begins with a dash.
    @Option(parsing: .unconditional, help: ArgumentHelp(
        "Only children in a region: a box south,west,north,east; a polygon [[lat,lng],…] or GeoJSON; or the place of a stored region, such "
            + "as zones/z1/ring (the rules need .geoIndex).", valueName: "south,west,north,east"))
    var within: String?
    @Flag(help: "Children as true, without their content.") var shallow = false

    func validate() throws {
        if limit != nil, last != nil { throw ValidationError("--limit and --last exclude each other.") }
        for (name, count) in [("--limit", limit), ("--last", last)] {
            if let count, count < 1 { throw ValidationError("\(name) takes 1 or more, not \(count).") }
        }
        for text in conditions {
            do throws(QueryFault) { _ = try Filter(text: text) } catch {
                throw ValidationError("--where '\(UserText.plain(text))': \(error.text).")
            }
        }
        if let near {
            do throws(QueryFault) { _ = try NearQuery(text: near) } catch {
                throw ValidationError("--near: \(error.member) \(error.text).")
            }
        }
        if let within {
            do throws(QueryFault) { _ = try WithinQuery(text: within) } catch {
                throw ValidationError("--within: \(UserText.plain(error.member)) \(UserText.plain(error.text)).")
            }
            if near != nil { throw ValidationError("--within and --near exclude each other.") }
        }
        if shallow, orderBy ?? start ?? end ?? equal ?? near ?? within ?? conditions.first != nil {
            throw ValidationError("--shallow goes with --limit and --last only.")
        }
    }

    /// Hints about probable mistakes, for standard error.
    var hints: [String] {
        guard near != nil, let orderBy, ["distance", "near", "metres"].contains(orderBy) else { return [] }
        return ["--order-by \(orderBy) is the order by a child of that name. Without --order-by the nearest come first."]
    }

    /// True if the region is one that is stored in the tree. Only the hub knows its kind and its size, which rules see.
    var hasStoredRegion: Bool { within.flatMap { try? WithinQuery(text: $0) }.map { $0.region == nil } ?? false }

    /// Whether no option of the query was given.
    var isEmpty: Bool { !shallow && parameters.isEmpty }

    /// Members of a "query" of `vigla rules test` and of the hub's explanations, each with its JSON. Without a stored region.
    var caseMembers: [(name: String, json: String)] {
        var found: [(name: String, json: String)] = []
        let circle = near.flatMap { try? NearQuery(text: $0) }
        let isOrdered = orderBy != nil || start != nil || end != nil || equal != nil || limit != nil || last != nil
        let region = within.flatMap { try? WithinQuery(text: $0) }
        // Without another order and a limit, a region has none.
        if isOrdered, orderBy != nil || circle == nil {
            switch order {
            case "$key": found.append(("orderByKey", "true"))
            case "$value": found.append(("orderByValue", "true"))
            case "$priority": found.append(("orderByPriority", "true"))
            case let path: found.append(("orderByChild", Node.string(path).json))
            }
        }
        for (name, text) in [("startAt", start), ("endAt", end), ("equalTo", equal)] {
            if let text { found.append((name, Self.value(text))) }
        }
        if let circle {
            found.append(("near", "true"))
            if let metres = circle.metres { found.append(("radius", JSONValue.double(metres).json)) }
            // Without another order the limit applies to the nearest.
            if let nearest = circle.limit ?? (orderBy == nil ? limit : nil) { found.append(("limit", "\(nearest)")) }
        }
        if let region = region?.region {
            found.append(("within", Node.string(region.kind).json))
            found.append(("radius", JSONValue.double(region.enclosingCircle.metres).json))
        }
        if let limit, circle == nil || orderBy != nil { found.append(("limitToFirst", "\(limit)")) }
        if let last { found.append(("limitToLast", "\(last)")) }
        // Rules see the conditions of equality.
        var equals: [JSONValue.Member] = []
        for condition in conditions.flatMap({ (try? Filter(text: $0))?.conditions ?? [] }) {
            guard case .equal(let constant) = condition.test, !condition.path.isRoot else { continue }
            equals.add(condition.path.relativeText, (try? JSONValue(Array(constant.value.json.utf8))) ?? .null)
        }
        if !equals.isEmpty { found.append(("where", JSONValue.object(equals).json)) }
        return found
    }

    /// The query's REST parameters; empty without a query.
    var parameters: [HubURL.Parameter] {
        var found: [HubURL.Parameter] = []
        if shallow { found.append(.init("shallow", "true")) }
        let isOrdered = orderBy != nil || start != nil || end != nil || equal != nil || limit != nil || last != nil
        // Without an order, a `near` query is ordered by distance.
        if isOrdered, !shallow, orderBy != nil || near == nil { found.append(.init("orderBy", Node.string(order).json)) }
        for (name, text) in [("startAt", start), ("endAt", end), ("equalTo", equal)] {
            if let text { found.append(.init(name, Self.value(text))) }
        }
        let filter = Filter(conditions.flatMap { (try? Filter(text: $0))?.conditions ?? [] })
        if !filter.isEmpty { found.append(.init("where", filter.json.json)) }
        if let near = near.flatMap({ try? NearQuery(text: $0) }) { found.append(.init("near", near.json.json)) }
        if let within = within.flatMap({ try? WithinQuery(text: $0) }) { found.append(.init("within", within.json.json)) }
        if let limit { found.append(.init("limitToFirst", "\(limit)")) }
        if let last { found.append(.init("limitToLast", "\(last)")) }
        return found
    }

    /// The same for the observe protocol; nil without a query. Ends the program when the hub would refuse it.
    var selection: Query? {
        let members = parameters.map { "\(Node.string(Text($0.name)).json):\($0.value)" }
        if members.isEmpty { return nil }
        let text = Array("{\"id\":0,\"op\":\"get\",\"path\":\"\",\"query\":{\(members.joined(separator: ","))}}".utf8)
        switch text.withUnsafeBytes({ bytes in try? ObserveRequest.parse(bytes) })?.operation {
        case .get(_, let query): return query
        case .invalid(let fault): fail(fault.message)
        default: fail("the query cannot be sent")
        }
    }

    private var order: String {
        switch orderBy {
        case nil, "key": "$key"
        case "value": "$value"
        case "priority": "$priority"
        case let path?: path
        }
    }

    /// Valid JSON unchanged; anything else as a text.
    private static func value(_ text: String) -> String {
        var native = text
        let isJSON = native.withUTF8 { bytes in
            var reader = JSONReader(UnsafeRawBufferPointer(bytes))
            return (try? reader.skipValue()) != nil && (try? reader.expectEnd()) != nil
        }
        return isJSON ? text : Node.string(text).json
    }
}
