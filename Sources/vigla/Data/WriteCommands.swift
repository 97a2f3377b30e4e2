import ArgumentParser
import Glibc
import JSONTree
import ViglaClient
import WireProtocols

/// The value of a write.
struct WrittenValue: ParsableArguments {
    @Argument(help: ArgumentHelp(
        "The value as JSON, or - to read it from standard input. {\".sv\":\"timestamp\"} stands for the hub's time.", valueName: "json"))
    var json: String

    /// Ends the program when it is not JSON.
    func read() -> String {
        guard json == "-" else {
            if Self.fault(json) != nil { fail("the value: \(Self.notJSON(json))") }
            return json
        }
        switch WholeFile.read(0) {
        case .success(let bytes):
            let text = String(decoding: bytes, as: UTF8.self)
            if let place = Self.fault(text) { fail("standard input: this is not JSON at \(place)") }
            return text
        case .failure(let fault): fail("standard input: \(fault)")
        }
    }

    /// The place of a JSON fault in a text, as `line:column (byte n)`; nil for valid JSON.
    private static func fault(_ json: String) -> String? {
        var native = json
        return native.withUTF8 { bytes in
            let buffer = UnsafeRawBufferPointer(bytes)
            do throws(JSONError) {
                var reader = JSONReader(buffer)
                try reader.skipValue()
                try reader.expectEnd()
                return nil
            } catch { return error.place(in: buffer) }
        }
    }

    /// The fault of an argument that is not JSON, with advice on quoting: a shell removes unprotected quotes.
    static func notJSON(_ argument: String) -> String {
        let shown = argument.count > 60 ? argument.prefix(60) + "…" : argument[...]
        let place = fault(argument).map { " at \($0)" } ?? ""
        return "this is not JSON\(place): \(UserText.plain(String(shown)))\n" + shellQuotes
    }

    /// How to type JSON as an argument.
    static let shellQuotes = """
        A shell takes double quotes away. Put single quotes around the whole value: '{"name":"Ana"}', and for a text '"hello"'. Or give \
        it on standard input, with - in its place.
        """
}

/// `vigla set URL JSON|-`
struct Set: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Replace the value of a place.",
        discussion: """
              vigla set http://127.0.0.1:9000/users/ana '{"name":"Ana"}'
              vigla set http://127.0.0.1:9000/users/ana/.priority 3          the priority alone
            """)
    @OptionGroup var target: Target
    @OptionGroup var value: WrittenValue

    func run() { Write.run(HubCall.operation("set", target.written, json: value.read()), target) }
}

/// `vigla update URL JSON|-`
struct Update: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Write several places in one step, all or none.",
        discussion: """
            The value is an object of paths below the place; what it does not name stays as it is.

              vigla update http://127.0.0.1:9000/ '{"users/ana/name":"Ana","posts/p1":null}'
            """)
    @OptionGroup var target: Target
    @OptionGroup var value: WrittenValue

    func validate() throws { try target.refusePriority() }

    func run() { Write.run(HubCall.operation("update", target.url.path, json: value.read()), target) }
}

/// `vigla push URL JSON|-`
struct Push: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Add a child with a new key and print the key.", discussion: "Newer keys sort later.")
    @OptionGroup var target: Target
    @OptionGroup var value: WrittenValue

    func validate() throws { try target.refusePriority() }

    func run() { Write.run(HubCall.operation("push", target.url.path, json: value.read()), target) }
}

/// `vigla remove URL`
struct Remove: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Remove the value of a place.")
    @OptionGroup var target: Target

    func run() {
        let place = TreeWrite(target.url.path, part: target.url.isPriority ? .priority : .node, WriteValue(.null))
        Write.run(.remove(place), target)
    }
}

/// Runs one write. Prints nothing on success, except a new key.
private enum Write {
    static func run(_ operation: ObserveOperation, _ target: Target) -> Never {
        target.refuseParameters()
        HubCall.run(target) { client in
            client.perform(operation) { result in
                switch result {
                case .success(let success):
                    if let key = success.key { StandardStream.output.line(key.string) }
                    HubCall.disconnect(client)
                case .failure(let error): HubCall.stop(error, target)
                }
            }
        }
    }
}
