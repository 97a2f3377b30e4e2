@testable import WireProtocols

/// A decoder's output, copied so that it can be compared.
enum HeardEvent: Equatable {
    case text([UInt8]), binary([UInt8]), ping([UInt8]), pong([UInt8])
    case close(UInt16?, [UInt8])
    case failure(WebSocketError)

    init(_ event: WebSocketEvent) {
        switch event {
        case .text(let bytes): self = .text(Array(bytes))
        case .binary(let bytes): self = .binary(Array(bytes))
        case .large(let message):
            do throws(WebSocketError) {
                let content = try message.content()
                self = message.opcode == .text ? .text(content) : .binary(content)
            } catch { self = .failure(error) }
        case .ping(let bytes): self = .ping(Array(bytes))
        case .pong(let bytes): self = .pong(Array(bytes))
        case .close(let code, let reason): self = .close(code, Array(reason))
        case .failure(let error): self = .failure(error)
        }
    }
}

extension WebSocketDecoder {
    mutating func hear(_ bytes: [UInt8]) -> [HeardEvent] {
        var bytes = bytes
        var heard: [HeardEvent] = []
        bytes.withUnsafeMutableBytes { buffer in receive(buffer) { heard.append(HeardEvent($0)) } }
        return heard
    }

    /// Feeds the pieces to a fresh decoder and joins its output.
    static func hear(_ pieces: [[UInt8]], role: Role = .server, limit: Int = 1 << 20) -> [HeardEvent] {
        var decoder = WebSocketDecoder(role: role, maxMessageBytes: limit)
        return pieces.flatMap { decoder.hear($0) }
    }
}

/// A client frame built by hand, so that every bit can be wrong.
func clientFrame(
    _ opcode: UInt8, _ payload: [UInt8], fin: Bool = true, rsv: UInt8 = 0, masked: Bool = true,
    mask: [UInt8] = [0x37, 0xFA, 0x21, 0x3D]
) -> [UInt8] {
    var frame = [(fin ? 0x80 : 0) | rsv << 4 | opcode]
    let bit: UInt8 = masked ? 0x80 : 0
    switch payload.count {
    case ..<126: frame.append(bit | UInt8(payload.count))
    case ..<65_536: frame += [bit | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
    default: frame += [bit | 127] + (0..<8).reversed().map { UInt8(payload.count >> ($0 * 8) & 0xFF) }
    }
    if masked {
        frame += mask
        frame += payload.enumerated().map { $1 ^ mask[$0 % 4] }
    } else {
        frame += payload
    }
    return frame
}
