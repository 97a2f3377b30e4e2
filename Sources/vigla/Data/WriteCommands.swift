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

    func read() -> String {
        guard json == "-" else { return json }
        switch WholeFile.read(0) {
        case .success(let bytes): return String(decoding: bytes, as: UTF8.self)
        case .failure(let fault): fail("standard input: \(fault)")
        }
    }
}

/// `vigla set URL JSON|-`
struct Set: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Replace what is at a place.")
    @OptionGroup var target: Target
    @OptionGroup var value: WrittenValue

    func run() { Write.run(HubCall.operation("set", target.url.path, json: value.read()), target) }
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

    func run() { Write.run(HubCall.operation("update", target.url.path, json: value.read()), target) }
}

/// `vigla push URL JSON|-`
struct Push: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Add a child with a new key and print the key.", discussion: "Keys made later sort later.")
    @OptionGroup var target: Target
    @OptionGroup var value: WrittenValue

    func run() { Write.run(HubCall.operation("push", target.url.path, json: value.read()), target) }
}

/// `vigla remove URL`
struct Remove: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Remove what is at a place.")
    @OptionGroup var target: Target

    func run() {
        target.refuseParameters()
        let url = target.url
        HubCall.run(target) { client in
            client.remove(url.path) { result in
                if case .failure(let error) = result { HubCall.stop(error, target) }
                HubCall.disconnect(client)
            }
        }
    }
}

/// Carries out one write. Silent when it worked, but for a new key.
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
