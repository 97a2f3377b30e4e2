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
        guard parameters.isEmpty, target.url.parameters.isEmpty else { return show(ask(parameters)) }
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
            let advice = status == 401 ? "\n\(target.credential.refusedByRules)" : ""
            fail("\(address) answers \(status)\(text.map { ": \($0)" } ?? "")\(advice)")
        }
        return value
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
    @Option(help: ArgumentHelp("Order: key, value, priority or a path in each child, such as score.", valueName: "order"))
    var orderBy: String?
    @Option(help: ArgumentHelp("First value in that order; JSON, or a text as it stands.", valueName: "value")) var start: String?
    @Option(help: ArgumentHelp("Last value.", valueName: "value")) var end: String?
    @Option(help: ArgumentHelp("The only value.", valueName: "value")) var equal: String?
    @Option(help: ArgumentHelp("So many from the start.", valueName: "number")) var limit: Int?
    @Option(help: ArgumentHelp("So many from the end.", valueName: "number")) var last: Int?
    @Flag(help: "Children as true, whatever is below them.") var shallow = false

    func validate() throws {
        if limit != nil, last != nil { throw ValidationError("--limit and --last exclude each other.") }
        if let count = limit ?? last, count < 1 { throw ValidationError("--limit and --last take 1 or more.") }
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
