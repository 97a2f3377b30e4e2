import ArgumentParser
import Dispatch
import DispatchNet
import Glibc
import JSONTree
import ViglaClient
import WireProtocols

/// The place that a data command works on, and its credential.
struct Target: ParsableArguments {
    @Argument(
        help: "Place in a hub, such as http://127.0.0.1:9000/users/ana?ns=demo (ns: namespace, if not the hub's default).",
        transform: { try HubURL(argument: $0, takesPriority: true) })
    var url: HubURL
    @OptionGroup var tlsOptions: TLSOptions
    @OptionGroup var credential: AdminCredential

    /// Ends the program when the address has a query, which the command would ignore.
    func refuseParameters() {
        guard let parameter = url.parameters.first else { return }
        let advice = ["auth", "access_token"].contains(parameter.name)
            ? "Give the credential with --auth-file, or VIGLA_AUTH."
            : "Only 'vigla get' takes queries in the address; 'vigla watch' has options for them."
        fail("the address has '\(parameter.name)' in its query, which this command does not know. \(advice)")
    }
}

extension Target {
    /// Refuses `…/.priority`, for commands that only accept places.
    func refusePriority() throws {
        if url.isPriority { throw ValidationError("Only 'vigla get', 'vigla set' and 'vigla remove' take the priority of a place.") }
    }

    /// The place in the form that a write uses: a priority as if it were a child.
    var written: Path { url.isPriority ? url.path.appending(Key(".priority")) : url.path }
}

extension HubURL {
    /// For the argument parser, whose closures may throw any error. The error describes an argument that is no address.
    init(argument: String) throws { try self.init(argument: argument, takesPriority: false) }

    init(argument: String, takesPriority: Bool) throws {
        if let first = argument.first, "{[\"".contains(first) {
            throw ValidationError("This is a value; the address comes first: vigla set URL JSON.")
        }
        if !argument.contains("://"), Checks.isFile(argument) {
            throw ValidationError("\(argument) is a file; the address of the hub comes first, such as http://127.0.0.1:9000.")
        }
        do throws(HubURLError) { try self.init(argument, takesPriority: takesPriority) } catch {
            guard case .path(".priority") = error else { throw error }
            throw ValidationError("Only 'vigla get', 'vigla set' and 'vigla remove' take the priority of a place (…/.priority).")
        }
    }

    /// For commands about a whole hub: refuses a path and parameters, which they would ignore.
    /// - Parameter why: the start of a sentence, such as `Accounts belong to the whole hub`.
    func refusePath(_ why: String) throws {
        if !path.isRoot { throw ValidationError("\(why): leave out the path (\(path)).") }
        if let parameter = parameters.first {
            let isCredential = ["auth", "access_token"].contains(parameter.name)
            let advice = isCredential ? "give the credential with --auth-file, or VIGLA_AUTH" : "leave it out"
            throw ValidationError("The address has '\(parameter.name)' in its query, which this command does not know: \(advice).")
        }
    }
}

/// Refuses a command line with a file and an address in the wrong order.
/// - Parameter usage: the right order, such as `vigla rules deploy URL FILE`.
func refuseSwapped(_ file: String, _ usage: String) throws {
    if file.contains("://") { throw ValidationError("The arguments are the other way round: \(usage).") }
}

/// One connection to a hub, after which the program ends.
enum HubCall {
    /// Connects and runs the closure, which must end the program.
    static func run(_ target: Target, reconnects: Bool = false, _ body: (HubClient) -> Void) -> Never {
        signal(SIGPIPE, SIG_IGN)
        let group: EventLoopGroup
        do throws(NetError) { group = try EventLoopGroup(count: 1) } catch { fail("\(error)") }
        var settings = HubClientSettings()
        settings.reconnects = reconnects
        settings.tls = target.tlsOptions.client(for: target.url.address)
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
        // In a later turn of the loop, after the last output was sent.
        _ = client.loop.schedule(afterMs: 1, everyMs: nil) { end() }
    }

    /// Prints why the call failed, with advice, and ends the program.
    static func stop(_ error: ClientError, _ target: Target, _ query: QueryOptions? = nil, doing: String? = nil) -> Never {
        let (address, credential) = (target.url.address, target.credential)
        var text = error.description
        switch error {
        case .unreachable, .notAccepted, .badAnswer: text = ConnectionAdvice.text(error, from: address)
        case .refused(let failure) where failure.known == .permissionDenied: text += "\n" + credential.refusedByRules(target, query)
        case .refused(let failure) where failure.known == .missingIndex:
            if let advice = MissingIndex.advice(failure.message, target.url.path, order: query?.orderBy) { text += "\n" + advice }
        case .refused(let failure) where failure.known == .invalidToken:
            text += "\nA hub takes its administrators' secrets and its accounts' ID tokens ('vigla token mint URL --user NAME'), and "
                + "with --dev also \"owner\" and unsigned tokens ('vigla token mint --uid NAME')."
        default: break
        }
        // Mention the credential only if the hub checked it.
        if let doing, case .refused = error { text = "\(doing): \(text)" }
        fail(text)
    }

    /// A request from JSON, validated as the hub would.
    static func operation(_ name: String, _ path: Path, json: String) -> ObserveOperation {
        let text = Array(json.utf8)
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
