import JSONTree
@testable import WireProtocols

/// The output of an assembler, copied.
enum HeardRealtime: Equatable {
    case keepAlive, message(String), oversized(Int64), failure(RealtimeError)

    init(_ inbound: RealtimeInbound) {
        switch inbound {
        case .keepAlive: self = .keepAlive
        case .message(let bytes): self = .message(text(bytes))
        case .blocks(let blocks): self = .message(text(blocks.joined()))
        case .oversized(let number): self = .oversized(number)
        case .failure(let error): self = .failure(error)
        }
    }
}

extension RealtimeAssembler {
    static func hear(_ texts: [String], limit: Int = 1 << 20) -> [HeardRealtime] {
        var limits = RealtimeLimits()
        limits.messageBytes = limit
        var assembler = RealtimeAssembler(limits: limits)
        var heard: [HeardRealtime] = []
        for text in texts {
            utf8(text).withUnsafeBytes { bytes in assembler.receive(bytes) { heard.append(HeardRealtime($0)) } }
        }
        return heard
    }
}

extension RealtimeMessage {
    static func parse(_ text: String, limits: RealtimeLimits = RealtimeLimits()) -> Result<RealtimeMessage, RealtimeError> {
        utf8(text).withUnsafeBytes { bytes in
            do throws(RealtimeError) { return .success(try parse(bytes, limits: limits)) } catch { return .failure(error) }
        }
    }

    /// The request in `text` with `b` as its body.
    static func request(_ action: String, _ body: String, limits: RealtimeLimits = RealtimeLimits()) -> RealtimeRequest? {
        let message = parse("{\"t\":\"d\",\"d\":{\"r\":7,\"a\":\"\(action)\",\"b\":\(body)}}", limits: limits)
        guard case .success(.request(let request)) = message else { return nil }
        return request
    }

    static func action(_ action: String, _ body: String, limits: RealtimeLimits = RealtimeLimits()) -> String {
        request(action, body, limits: limits).map { $0.action.summary } ?? "none"
    }
}

extension TreeWrite {
    var summary: String {
        let deferred = value.deferred.map { "\($0.path)=\($0.target):\($0.value)" }.joined(separator: ",")
        return "\(path)\(part == .priority ? "!" : "")=\(value.node.json)" + (deferred.isEmpty ? "" : "+[\(deferred)]")
    }
}

extension TreeQuery {
    var json: String {
        var writer = JSONWriter()
        write(to: &writer)
        return text(writer.bytes)
    }
}

extension RealtimeAction {
    /// Everything of an action in one comparable line.
    var summary: String {
        func list(_ writes: [TreeWrite]) -> String { writes.map(\.summary).joined(separator: " ") }
        func credential(_ c: RealtimeCredential) -> String { "\(c.credential) \(c.noauth) \(c.authvar?.json ?? "-")" }
        return switch self {
        case .stats: "stats"
        case .listen(let path, let query, let tag, let hash):
            "listen \(path) \(query?.json ?? "-") \(tag.map(String.init) ?? "-") \(hash ?? "-")"
        case .unlisten(let path, let query, let tag): "unlisten \(path) \(query?.json ?? "-") \(tag.map(String.init) ?? "-")"
        case .get(let path): "get \(path) -"
        case .select(let path, let query): "get \(path) \(query.json)"
        case .put(let write, let hash): "put \(write.summary) \(hash ?? "-")"
        case .merge(let path, let writes, let hash): "merge \(path) [\(list(writes))] \(hash ?? "-")"
        case .onDisconnectPut(let write): "onPut \(write.summary)"
        case .onDisconnectMerge(let path, let writes): "onMerge \(path) [\(list(writes))]"
        case .onDisconnectCancel(let path): "onCancel \(path)"
        case .auth(let c): "auth \(credential(c))"
        case .gauth(let c): "gauth \(credential(c))"
        case .unauth: "unauth"
        case .appCheck(let token): "appCheck \(token)"
        case .unappCheck: "unappCheck"
        case .unknown(let name): "unknown \(name)"
        case .invalid(let action, let refusal): "invalid \(action) \(refusal.status.rawValue): \(refusal.text)"
        }
    }
}
