import ArgumentParser
import Dispatch
import DispatchNet
import Glibc
import JSONTree
import ViglaClient
import WireProtocols

/// The place that a data command works on, and as whom.
struct Target: ParsableArguments {
    @Argument(
        help: "Place in a hub, such as http://127.0.0.1:9000/users/ana?ns=demo (ns: namespace, if not the hub's default).",
        transform: HubURL.init(argument:))
    var url: HubURL
    @OptionGroup var trust: Trust
    @OptionGroup var credential: AdminCredential

    /// Ends the program when the address has a query that the command would leave out.
    func refuseParameters() {
        guard let parameter = url.parameters.first else { return }
        let advice = ["auth", "access_token"].contains(parameter.name)
            ? "Give the credential with --auth-file, or VIGLA_AUTH." : "Only 'vigla get' takes queries."
        fail("the address has '\(parameter.name)' in its query, which this command does not know. \(advice)")
    }
}

extension HubURL {
    /// For the argument parser, whose closures throw anything.
    init(argument: String) throws { try self.init(argument) }
}

/// One conversation with a hub, at whose end the program ends.
enum HubCall {
    /// Connects and runs the closure, which must end the program.
    static func run(_ target: Target, reconnects: Bool = false, _ body: (HubClient) -> Void) -> Never {
        signal(SIGPIPE, SIG_IGN)
        let group: EventLoopGroup
        do throws(NetError) { group = try EventLoopGroup(count: 1) } catch { fail("\(error)") }
        var settings = HubClientSettings()
        settings.reconnects = reconnects
        settings.tls = target.trust.client(for: target.url.address)
        let progress = Progress()
        let address = target.url.address
        let client = HubClient(address, on: group.next(), settings: settings) { state in
            switch state {
            case .connected:
                if progress.hasConnected { StandardStream.error.line("vigla: connected again") }
                (progress.hasConnected, progress.isWaiting) = (true, false)
            case .waiting(let error, _):
                guard progress.hasConnected else { stop(error, target) }
                if !progress.isWaiting { StandardStream.error.line("vigla: \(error) Trying again.") }
                progress.isWaiting = true
            case .credentialRefused(let failure): fail("the token is no longer accepted: \(failure.message)")
            default: break
            }
        }
        if let (credential, source) = target.credential.find() {
            client.authenticate(credential) { if case .failure(let error) = $0 { stop(error, target, doing: source) } }
        }
        body(client)
        client.connect()
        dispatchMain()
    }

    /// Closes the connection in good order and ends the program: without close_notify the hub would count it as truncated.
    static func disconnect(_ client: HubClient) {
        client.close()
        // In a later turn of the loop, when the last output has been sent.
        _ = client.loop.schedule(afterMs: 1, everyMs: nil) { end() }
    }

    /// Prints why the call failed, with advice, and ends the program.
    static func stop(_ error: ClientError, _ target: Target, doing: String? = nil) -> Never {
        let (address, credential) = (target.url.address, target.credential)
        var text = (doing.map { "\($0): " } ?? "") + error.description
        switch error {
        case .unreachable where text.contains("nobody listens"):
            text += "\nIs the hub running? Start one with: vigla serve --port \(address.port)   (add --dev to try things out)"
        case .unreachable: text += Trust.advice(text)
        case .refused(let failure) where failure.known == .permissionDenied: text += "\n" + credential.refusedByRules
        case .refused(let failure) where failure.known == .invalidToken:
            text += "\nA hub takes its administrators' secrets and its accounts' ID tokens ('vigla token mint URL --user NAME'), and "
                + "with --dev also \"owner\" and unsigned tokens ('vigla token mint --uid NAME')."
        default: break
        }
        fail(text)
    }

    /// A request from JSON that a person wrote, judged as the hub would judge it.
    static func operation(_ name: String, _ path: Path, json: String) -> ObserveOperation {
        let text = Array(json.utf8)
        let isValue = text.withUnsafeBytes { buffer in
            do throws(JSONError) {
                var reader = JSONReader(buffer)
                try reader.skipValue()
                try reader.expectEnd()
                return nil as Int?
            } catch { return error.offset }
        }
        if let offset = isValue { fail("the value is not JSON at byte \(offset + 1); a text needs its quotes: '\"hello\"'") }
        var writer = JSONWriter()
        writer.raw("{\"id\":0,\"op\":")
        writer.string(name)
        writer.raw(",\"path\":")
        writer.path(path.keys)
        writer.raw(",\"value\":")
        writer.raw(text)
        writer.raw("}")
        let request = writer.bytes.withUnsafeBytes { bytes in try? ObserveRequest.parse(bytes) }
        switch request?.operation {
        case .invalid(let fault): fail(fault.message)
        case .some(let operation): return operation
        case nil: fail("the value cannot be sent")
        }
    }

    private final class Progress: @unchecked Sendable {
        // because it is used on the client's loop only.
        var hasConnected = false
        var isWaiting = false
    }
}
