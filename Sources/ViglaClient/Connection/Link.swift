internal import DispatchNet
internal import HTTPTypes
internal import WireProtocols

/// One connection of a client: requests the upgrade, then carries frames. Used on the loop only.
final class Link: ConnectionHandler, @unchecked Sendable {
    // because it is created and used on the loop only.
    private let connection: Connection
    private let client: HubClient
    private let key: String
    /// Reads the answer to the upgrade; nil once the connection speaks WebSocket.
    private var handshake: HTTPResponseParser?
    private var decoder: WebSocketDecoder
    private var encoder = WebSocketEncoder()
    private var generator = SystemRandomNumberGenerator()
    private var watch: LoopTimer?
    /// Ticks of the watch since the hub last sent something.
    private var silentTicks = 0
    /// The specific error with which the connection ends; nil leaves it to the close reason.
    private var failure: ClientError?
    private var hasLeft = false

    init(_ connection: Connection, _ client: HubClient) {
        self.connection = connection
        self.client = client
        key = WebSocketHandshake.makeKey(using: &generator)
        handshake = HTTPResponseParser()
        decoder = WebSocketDecoder(role: .client, maxMessageBytes: client.settings.messageBytes)
        let every = client.settings.silenceSeconds * 1000 / 3
        watch = connection.loop.schedule(afterMs: every, everyMs: every) { [weak self] in self?.tick() }
        connection.send(WebSocketHandshake.request(
            host: client.address.hostField, target: client.address.target, key: key, deflate: client.settings.deflate))
    }

    func send(_ request: ObserveRequest) {
        let mask = WebSocketMask.random(using: &generator)
        connection.send(request.encoded().withUnsafeBytes { encoder.frame(.text, $0, mask: mask) })
    }

    /// Closes the connection without further notifications to the client.
    func detach() {
        guard !hasLeft else { return }
        hasLeft = true
        if handshake == nil { connection.send(WebSocketFrame.close(WebSocketCloseCode.normal, mask: .random(using: &generator))) }
        connection.close(.finished)
    }

    func fail(_ error: ClientError) {
        guard failure == nil else { return }
        failure = error
        connection.close(.protocolError(WebSocketCloseCode.protocolError))
    }

    // MARK: ConnectionHandler

    func received(_ bytes: UnsafeMutableRawBufferPointer) {
        silentTicks = 0
        guard handshake == nil else { return receivedHandshake(bytes) }
        decoder.receive(bytes) { event in
            guard !hasLeft, failure == nil else { return }
            switch event {
            case .text(let text):
                do throws(ObserveError) { client.received(try ObserveMessage.parse(text)) } catch { fail(.badAnswer("\(error)")) }
            case .ping, .pong: answer(event)
            case .binary, .large: fail(.badAnswer("binary message"))
            case .close(let code, let reason):
                let text = String(decoding: reason, as: UTF8.self)
                failure = .dismissed(code: code ?? 1005, reason: text)
                answer(event)
                connection.close(.peerClosed)
            case .failure(let error):
                answer(event)
                fail(.badAnswer(error.reason))
            }
        }
    }

    private func answer(_ event: WebSocketEvent) {
        if let answer = event.answer(mask: .random(using: &generator)) { connection.send(answer) }
    }

    func ended(_ reason: CloseReason) {
        watch?.cancel()
        guard !hasLeft else { return }
        if let failure { return client.lost(failure) }
        client.lost(handshake == nil ? .connectionLost : .unreachable(
            "the server at \(client.address) ended the connection (\(reason.name)); is it a Vigla hub?"))
    }

    // MARK: upgrade

    private func receivedHandshake(_ bytes: UnsafeMutableRawBufferPointer) {
        guard failure == nil, !hasLeft, let step = handshake?.receive(UnsafeRawBufferPointer(bytes)) else { return }
        switch step.event {
        case .incomplete: return
        case .failure: fail(.unreachable("the server at \(client.address) does not speak HTTP/1.1"))
        case .response(let response):
            do throws(WebSocketHandshake.Refusal) {
                let settings = client.settings
                let deflate = try WebSocketHandshake.check(response, key: key, deflate: settings.deflate)
                decoder = WebSocketDecoder(role: .client, maxMessageBytes: settings.messageBytes, deflate: deflate)
                encoder = WebSocketEncoder(deflate?.client, settings: settings.deflate ?? DeflateSettings())
            } catch {
                let text = String(decoding: response.body.prefix(512), as: UTF8.self)
                return fail(.notAccepted(status: response.status.code, text: text))
            }
            handshake = nil
            client.opened(self)
            let rest = UnsafeMutableRawBufferPointer(rebasing: bytes[step.consumed...])
            if !rest.isEmpty { received(rest) }
        }
    }

    /// Pings a hub that is silent for a third of the allowed time; after three thirds it closes the connection.
    private func tick() {
        silentTicks += 1
        guard !hasLeft, failure == nil else { return }
        if silentTicks >= 3 {
            failure = handshake == nil ? .connectionLost : .unreachable("no answer from \(client.address)")
            connection.abort(.idle)
        } else if handshake == nil {
            connection.send(WebSocketFrame.ping(mask: .random(using: &generator)))
        }
    }
}
