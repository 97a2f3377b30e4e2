/// The server side of a WebSocket-only connection: the HTTP upgrade, frames, compression, pings, and the closing handshake.
///
/// ```
/// handshake ──(GET … Upgrade: websocket)──► open ──(Close, or a broken frame)──► ended
///     └──────────────(any other request)──────────────────────────────────────────┘
/// ```
public struct WebSocketEndpoint: Sendable {
    private enum State {
        /// Reading the upgrade request (RFC 6455 §4.2.1).
        case handshake(HTTPRequestParser)
        /// Messages flow in both directions (§4.1).
        case open(WebSocketDecoder)
        /// Sending the close frame; further input is ignored (§7.1.1).
        case ended
    }

    /// The next action for the caller.
    public enum Step {
        /// Send these bytes.
        case send([UInt8])
        /// A message from the peer, valid during the call; the encoder creates frames for this peer.
        case message(WebSocketOpcode, UnsafeRawBufferPointer, WebSocketEncoder)
        /// Close the connection once everything is sent. The last step.
        case end
    }

    private var state = State.handshake(HTTPRequestParser())
    private var encoder = WebSocketEncoder()
    private let maxMessageBytes: Int
    private let deflate: DeflateSettings?

    /// - Parameter deflate: settings of permessage-deflate; nil declines every offer.
    public init(maxMessageBytes: Int, deflate: DeflateSettings? = nil) {
        self.maxMessageBytes = maxMessageBytes
        self.deflate = deflate
    }

    /// Processes the next bytes, split anywhere; they are unmasked in place. O(n).
    public mutating func receive(_ bytes: UnsafeMutableRawBufferPointer, _ handle: (Step) -> Void) {
        var rest = bytes[...]
        while case .handshake(var http) = state, !rest.isEmpty {
            let step = http.receive(UnsafeRawBufferPointer(rebasing: rest))
            state = .handshake(http)
            rest = rest.dropFirst(step.consumed)
            switch step.event {
            case .incomplete, .expectsContinue: break
            case .request(let request): answer(request, handle)
            case .failure(let failure): refuse(failure, handle)
            }
        }
        guard case .open(var decoder) = state else { return }
        decoder.receive(UnsafeMutableRawBufferPointer(rebasing: rest)) { event in
            switch event {
            case .text(let text): handle(.message(.text, text, encoder))
            case .binary(let bytes): handle(.message(.binary, bytes, encoder))
            // The decoder has no `inlineBytes`, so it delivers no large messages.
            case .large: break
            case .ping, .pong, .close, .failure: if let answer = event.answer() { handle(.send(answer)) }
            }
            if event.isLast { handle(.end) }
        }
        state = decoder.hasEnded ? .ended : .open(decoder)
    }

    private mutating func answer(_ request: HTTPInboundRequest, _ handle: (Step) -> Void) {
        switch WebSocketHandshake.respond(to: request, deflate: deflate) {
        case .success(let accepted):
            handle(.send(accepted.response))
            encoder = WebSocketEncoder(accepted.deflate?.server, settings: deflate ?? DeflateSettings())
            state = .open(WebSocketDecoder(role: .server, maxMessageBytes: maxMessageBytes, deflate: accepted.deflate))
        case .failure(let failure): refuse(failure, handle)
        }
    }

    private mutating func refuse(_ failure: HTTPFailure, _ handle: (Step) -> Void) {
        state = .ended
        handle(.send(HTTPResponseEncoder.failure(failure)))
        handle(.end)
    }
}
