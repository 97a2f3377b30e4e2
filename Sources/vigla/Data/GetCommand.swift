import ArgumentParser
import JSONTree
import ViglaClient
import WireProtocols

/// `vigla get URL`
struct Get: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print the value of a place: as one line of JSON, indented, or as a table of its children.",
        discussion: """
            A place without data prints null. The address may be one of REST, with its query:

              vigla get http://127.0.0.1:9000/players --order-by score --last 3 --format table
              vigla get 'http://127.0.0.1:9000/players.json?orderBy="score"&limitToLast=3'
              vigla get http://127.0.0.1:9000/players --where 'team == red' --where 'score >= 3'
              vigla get http://127.0.0.1:9000/reports --near 37.975,23.735,1000 --format table
              vigla get http://127.0.0.1:9000/reports --near 37.975,23.735,1000 --count

            An order by a path in each child, or by value, needs its line in the hub's rules, also with --dev: at /players \
            ".indexOn": "score". An order by key or priority needs none; --near needs ".geoIndex". \
            A path that ends in /.priority prints the place's priority.

            JSON is an object, in the order of its keys; a table is in the order that was asked for, with --near the nearest first and \
            how far each is, in metres.
            """)

    enum Form: String, ExpressibleByArgument, CaseIterable { case json, table }

    @OptionGroup var target: Target
    @OptionGroup(title: "Query") var query: QueryOptions
    @Flag(help: "Only the number of children, or of those that the query selects.") var count = false
    @Flag(help: "How the hub finds the children of the query, without data.") var explain = false
    @Flag(help: "Indent the JSON.") var pretty = false
    @Option(help: ArgumentHelp("json, or table: a line for each child.", valueName: "json|table")) var format = Form.json

    func validate() throws {
        if count || explain, query.shallow || format == .table {
            throw ValidationError("--count and --explain go without --shallow and --format table.")
        }
        if pretty, format == .table { throw ValidationError("--pretty is for JSON.") }
    }

    func run() {
        for hint in query.hints { StandardStream.error.line("vigla: \(hint)") }
        let numbers = [("count", count), ("explain", explain)].filter(\.1).map { HubURL.Parameter($0.0, "true") }
        let parameters = query.parameters + numbers
        if query.near != nil, format == .table, numbers.isEmpty, target.url.parameters.isEmpty { showDistances() }
        guard parameters.isEmpty, target.url.parameters.isEmpty, !target.url.isPriority else { return show(ask(parameters)) }
        HubCall.run(target) { client in
            client.get(target.url.path) { result in
                switch result {
                case .success(let value):
                    show(value)
                    HubCall.disconnect(client)
                case .failure(let error): HubCall.stop(error, target, query)
                }
            }
        }
    }

    /// Only the observe protocol sends the order and the distances.
    private func showDistances() -> Never {
        let asked = ObserveOperation.get(path: target.url.path, query: query.selection)
        HubCall.run(target) { client in
            client.perform(asked) { result in
                switch result {
                case .success(let found):
                    let (keys, value) = (found.keys ?? [], found.value ?? .null)
                    let rows = keys.map { ($0, value.child($0)) }
                    for line in NodeTable.lines(rows, metres: found.distances) { StandardStream.output.line(line) }
                    HubCall.disconnect(client)
                case .failure(let error): HubCall.stop(error, target, query)
                }
            }
        }
    }

    /// Sends the query over REST.
    private func ask(_ parameters: [HubURL.Parameter]) -> Node {
        let address = target.url.address
        let (status, body) = HubRequest.send(
            "GET", target.url.resource + target.url.query(adding: parameters), to: address, tls: target.tlsOptions,
            credential: target.credential.read())
        let value = body.withUnsafeBytes { bytes -> Node? in
            var reader = JSONReader(bytes)
            return (try? reader.writeValue())?.node
        }
        guard status == 200, let value else {
            let text: String? = if case .string(let text)? = value?.child("error") { text.string } else { nil }
            let advice = switch status {
            case 401: "\n\(target.credential.refusedByRules(target, query))"
            case 404 where ConnectionAdvice.isUnknownNamespace(status, text ?? ""): "\n" + ConnectionAdvice.otherNamespace
            default: MissingIndex.advice(text ?? "", target.url.path, order: query.orderBy ?? target.url.order).map { "\n" + $0 } ?? ""
            }
            fail("\(address) answers \(status)\(text.map { ": \($0)" } ?? "")\(advice)")
        }
        return value
    }

    private func show(_ value: Node) {
        switch format {
        case .table: for line in NodeTable.lines(value, sortedBy: query.orderBy ?? target.url.order) { StandardStream.output.line(line) }
        case .json:
            guard pretty else { return StandardStream.output.line(value.json) }
            var encoder = NodeEncoder(value, NodeEncoder.Form(arrays: .never, isPretty: true))
            var writer = JSONWriter()
            encoder.write(to: &writer, atLeast: .max)
            StandardStream.output.write(writer.bytes.last == 0x0A ? writer.bytes : writer.bytes + [0x0A])
        }
    }
}

extension HubURL {
    /// The `orderBy` of its query, without quotes.
    fileprivate var order: String? {
        parameters.first { $0.name == "orderBy" }.map { $0.value.filter { $0 != "\"" } }
    }
}
