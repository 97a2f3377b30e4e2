import ArgumentParser
import JSONTree
import ViglaClient
import WireProtocols

/// `vigla get URL`
struct Get: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print what is at a place: as one line of JSON, indented, or as a table of its children.",
        discussion: """
            A place without data prints null. The address may be one of REST, with its query:

              vigla get http://127.0.0.1:9000/players --order-by score --last 3 --format table
              vigla get 'http://127.0.0.1:9000/players.json?orderBy="score"&limitToLast=3'

            An order by a path in each child, or by value, needs its line in the hub's rules, also with --dev: at /players \
            ".indexOn": "score". An order by key or priority needs none. A path that ends in /.priority prints the place's priority.
            """)

    enum Form: String, ExpressibleByArgument, CaseIterable { case json, table }

    @OptionGroup var target: Target
    @OptionGroup(title: "Query") var query: QueryOptions
    @Flag(help: "Indent the JSON.") var pretty = false
    @Option(help: ArgumentHelp("json, or table: a line for each child.", valueName: "json|table")) var format = Form.json

    func validate() throws {
        if pretty, format == .table { throw ValidationError("--pretty is for JSON.") }
    }

    func run() {
        let parameters = query.parameters
        guard parameters.isEmpty, target.url.parameters.isEmpty, !target.url.isPriority else { return show(ask(parameters)) }
        HubCall.run(target) { client in
            client.get(target.url.path) { result in
                switch result {
                case .success(let value):
                    show(value)
                    HubCall.disconnect(client)
                case .failure(let error): HubCall.stop(error, target)
                }
            }
        }
    }

    /// Queries go over REST.
    private func ask(_ parameters: [HubURL.Parameter]) -> Node {
        let address = target.url.address
        let (status, body) = AdminCall.ask(
            "GET", target.url.resource + target.url.query(adding: parameters), at: address, tls: target.trust.client(for: address),
            credential: target.credential.read(), body: [])
        let value = body.withUnsafeBytes { bytes -> Node? in
            var reader = JSONReader(bytes)
            return (try? reader.writeValue())?.node
        }
        guard status == 200, let value else {
            let text: String? = if case .string(let text)? = value?.child("error") { text.string } else { nil }
            let advice = switch status {
            case 401: "\n\(target.credential.refusedByRules)"
            case 404 where NoAnswer.isUnknownNamespace(status, text ?? ""): "\n" + NoAnswer.otherNamespace
            case 400 where text?.hasPrefix("Index not defined") == true: "\n" + missingIndex
            default: ""
            }
            fail("\(address) answers \(status)\(text.map { ": \($0)" } ?? "")\(advice)")
        }
        return value
    }

    /// The line that the rules file lacks for this query, where it belongs, and how it gets there.
    private var missingIndex: String {
        let order = query.orderBy.map { $0 == "value" ? ".value" : $0 } ?? target.url.order.map { $0 == "$value" ? ".value" : $0 } ?? "…"
        var members = "\".indexOn\": \(Node.string(order).json)"
        for key in target.url.path.keys.reversed() { members = "\(Node.string(key.string).json): { \(members) }" }
        return """
            Such an order needs a line in the rules file, also with --dev:
              { "rules": { \(members) } }
            Add it to the hub's file of --rules and send the hub SIGHUP, or: vigla rules get URL > rules.json, add it there, and
            vigla rules deploy URL rules.json. (A wildcard such as "$room" may stand for a key.)
            """
    }

    private func show(_ value: Node) {
        switch format {
        case .table: for line in NodeTable.lines(value, sortedBy: query.orderBy ?? target.url.order) { StandardStream.output.line(line) }
        case .json:
            guard pretty else { return StandardStream.output.line(value.json) }
            var encoder = NodeEncoder(value, NodeEncoder.Form(showsArrays: false, isPretty: true))
            var writer = JSONWriter()
            encoder.write(to: &writer, atLeast: .max)
            StandardStream.output.write(writer.bytes.last == 0x0A ? writer.bytes : writer.bytes + [0x0A])
        }
    }
}

/// What is asked for of a place's children, as in REST.
struct QueryOptions: ParsableArguments {
    @Option(help: ArgumentHelp(
        "Order: key, value, priority or a path in each child, such as score (the rules need .indexOn for value and paths).",
        valueName: "order"))
    var orderBy: String?
    // Unconditional: a value may begin with a dash, as -5 does.
    @Option(parsing: .unconditional, help: ArgumentHelp("First value in that order; JSON, or a text as it stands.", valueName: "value"))
    var start: String?
    @Option(parsing: .unconditional, help: ArgumentHelp("Last value.", valueName: "value")) var end: String?
    @Option(parsing: .unconditional, help: ArgumentHelp("The only value.", valueName: "value")) var equal: String?
    @Option(parsing: .unconditional, help: ArgumentHelp("So many from the start.", valueName: "number")) var limit: Int?
    @Option(parsing: .unconditional, help: ArgumentHelp("So many from the end.", valueName: "number")) var last: Int?
    @Flag(help: "Children as true, whatever is below them.") var shallow = false

    func validate() throws {
        if limit != nil, last != nil { throw ValidationError("--limit and --last exclude each other.") }
        for (name, count) in [("--limit", limit), ("--last", last)] {
            if let count, count < 1 { throw ValidationError("\(name) takes 1 or more, not \(count).") }
        }
        if shallow, orderBy ?? start ?? end ?? equal != nil { throw ValidationError("--shallow goes with --limit and --last only.") }
    }

    /// Empty without a query.
    var parameters: [HubURL.Parameter] {
        var found: [HubURL.Parameter] = []
        if shallow { found.append(.init("shallow", "true")) }
        let isOrdered = orderBy != nil || start != nil || end != nil || equal != nil || limit != nil || last != nil
        if isOrdered, !shallow { found.append(.init("orderBy", Node.string(order).json)) }
        for (name, text) in [("startAt", start), ("endAt", end), ("equalTo", equal)] {
            if let text { found.append(.init(name, Self.value(text))) }
        }
        if let limit { found.append(.init("limitToFirst", "\(limit)")) }
        if let last { found.append(.init("limitToLast", "\(last)")) }
        return found
    }

    /// The same for the observe protocol; nil without a query. Ends the program when the hub would refuse it.
    var filter: ObserveQuery? {
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

    /// JSON as it is; anything else is a text.
    private static func value(_ text: String) -> String {
        var native = text
        let isJSON = native.withUTF8 { bytes in
            var reader = JSONReader(UnsafeRawBufferPointer(bytes))
            return (try? reader.skipValue()) != nil && (try? reader.expectEnd()) != nil
        }
        return isJSON ? text : Node.string(text).json
    }
}

extension HubURL {
    /// The `orderBy` of its query, without its quotes.
    fileprivate var order: String? {
        parameters.first { $0.name == "orderBy" }.map { $0.value.filter { $0 != "\"" } }
    }
}
