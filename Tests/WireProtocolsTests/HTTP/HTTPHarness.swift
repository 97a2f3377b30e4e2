import HTTPTypes
@testable import WireProtocols

extension HTTPRequestParser {
    /// Feeds the pieces to a fresh parser as a connection would and lists the requests, ending at a failure.
    static func requests(_ pieces: [[UInt8]], limits: HTTPLimits = HTTPLimits()) -> [Result<HTTPInboundRequest, HTTPFailure>] {
        var parser = HTTPRequestParser(limits: limits)
        var heard: [Result<HTTPInboundRequest, HTTPFailure>] = []
        for piece in pieces {
            piece.withUnsafeBytes { bytes in
                var at = 0
                while at < bytes.count {
                    let step = parser.receive(UnsafeRawBufferPointer(rebasing: bytes[at...]))
                    at += step.consumed
                    switch step.event {
                    case .incomplete, .expectsContinue: break
                    case .request(let request): heard.append(.success(request))
                    case .failure(let failure):
                        if case .failure = heard.last { return }
                        heard.append(.failure(failure))
                    }
                }
            }
        }
        return heard
    }

    /// The failure caused by `text`, if any.
    static func failure(_ text: String, limits: HTTPLimits = HTTPLimits()) -> HTTPFailure? {
        guard case .failure(let failure) = requests([Array(text.utf8)], limits: limits).last else { return nil }
        return failure
    }
}

extension HTTPInboundRequest {
    /// Everything of a request in one comparable line.
    var summary: String {
        let fields = fields.map { "\($0.name.rawName)=\($0.value)" }.joined(separator: "|")
        return "\(method.rawValue) \(target.path)?\(target.rawQuery ?? "-") [\(fields)] \(String(decoding: body, as: UTF8.self)) "
            + "\(isHTTP11) \(keepsAlive)"
    }
}

extension HTTPResponseParser {
    static func responses(_ pieces: [[UInt8]], limits: HTTPLimits = HTTPLimits()) -> [HTTPInboundResponse] {
        var parser = HTTPResponseParser(limits: limits)
        var heard: [HTTPInboundResponse] = []
        for piece in pieces {
            piece.withUnsafeBytes { bytes in
                var at = 0
                while at < bytes.count {
                    let step = parser.receive(UnsafeRawBufferPointer(rebasing: bytes[at...]))
                    at += step.consumed
                    if case .response(let response) = step.event { heard.append(response) }
                }
            }
        }
        if let last = parser.receiveEnd() { heard.append(last) }
        return heard
    }
}
