public import JSONTree

/// One message of an observe server, as a client reads it.
public enum ObserveMessage: Sendable, Equatable {
    case ok(id: Int64, ObserveSuccess)
    /// `id` is nil if the server could not read the request's id; it closes then.
    case failed(id: Int64?, ObserveFailure)
    /// - isFollowed: whether another event of the same commit and subscription follows.
    case event(sub: Int64, seq: Int64, ObserveEvent, isFollowed: Bool = false)
    /// The observe has ended.
    case ended(sub: Int64, ObserveFailure)

    /// Parses one message. Unknown members and codes are ignored, for compatibility with newer servers.
    /// - Throws: `ObserveError.malformed` for a text that is not JSON, `.notAMessage` for other JSON.
    public static func parse(_ bytes: UnsafeRawBufferPointer) throws(ObserveError) -> ObserveMessage {
        do throws(JSONError) {
            return try ObserveMessageParser(bytes: bytes).message()
        } catch {
            throw error.isMalformed ? .malformed(offset: error.offset) : .notAMessage
        }
    }
}

/// A refusal as the client receives it. `code` is one of `ObserveCode`, or a newer one.
public struct ObserveFailure: Error, Sendable, Equatable {
    public var code: String
    public var message: String
    /// The member of the request at fault.
    public var member: String?
    /// For `stale`: the current value; nil if the hub does not send it.
    public var value: Node?
    /// The messages of the violated rules.
    public var messages: [String]
    /// For `over_budget` and `too_many`: when the client may try again.
    public var retryAfterMs: Int64?

    public init(code: String, message: String, member: String? = nil, value: Node? = nil, messages: [String] = []) {
        self.value = value
        self.messages = messages
        self.code = code
        self.message = message
        self.member = member
    }

    /// The code, if this version knows it.
    public var known: ObserveCode? { ObserveCode(rawValue: code) }
}

private struct ObserveMessageParser {
    let bytes: UnsafeRawBufferPointer

    private struct Members {
        var id: Int64?
        var hasID = false
        var sub: Int64?
        var seq: Int64?
        var event: String?
        var key: Key?
        var value: Node?
        var prev = ObservePrevious.notSent
        var distance: Double?
        var why: ObserveReason?
        var count: Int64?
        var isFollowed = false
        var success: ObserveSuccess?
        var failure: ObserveFailure?
    }

    func message() throws(JSONError) -> ObserveMessage {
        var reader = JSONReader(bytes)
        let members = try members(&reader)
        try reader.expectEnd()
        if members.hasID {
            if let id = members.id, let success = members.success { return .ok(id: id, success) }
            if let failure = members.failure { return .failed(id: members.id, failure) }
        } else if let sub = members.sub {
            if let failure = members.failure { return .ended(sub: sub, failure) }
            if let seq = members.seq, let event = event(members) { return .event(sub: sub, seq: seq, event, isFollowed: members.isFollowed) }
        }
        throw .unexpectedType(offset: reader.offset)
    }

    private func members(_ reader: inout JSONReader) throws(JSONError) -> Members {
        var members = Members()
        try reader.beginObject()
        while let name = try reader.nextName() {
            switch name {
            case "id":
                members.hasID = true
                if try reader.peek() == .null { try reader.null() } else { members.id = try reader.int() }
            case "sub": members.sub = try reader.int()
            case "seq": members.seq = try reader.int()
            case "event": members.event = try reader.string()
            case "key": members.key = Key(try reader.string())
            case "value": members.value = try reader.writeValue().node
            case "prev":
                if try reader.peek() == .null {
                    try reader.null()
                    members.prev = .first
                } else {
                    members.prev = .key(Key(try reader.string()))
                }
            case "distance": members.distance = try reader.metres()
            case "why": members.why = ObserveReason(rawValue: try reader.string())
            case "count": members.count = try reader.int()
            case "more": members.isFollowed = try reader.bool()
            case "ok": members.success = try success(&reader)
            case "error": members.failure = try failure(&reader)
            default: try reader.skipValue()
            }
        }
        return members
    }

    private func success(_ reader: inout JSONReader) throws(JSONError) -> ObserveSuccess {
        var success = ObserveSuccess()
        try reader.beginObject()
        while let name = try reader.nextName() {
            switch name {
            case "seq": success.seq = try reader.int()
            case "key": success.key = Key(try reader.string())
            case "epoch": success.epoch = try reader.string()
            case "reset": success.isReset = try reader.bool()
            case "count": success.count = try reader.int()
            case "uid": success.uid = try reader.string()
            case "lacksIndex": success.lacksIndex = try reader.bool()
            case "value": success.value = try reader.writeValue().node
            case "keys":
                var keys: [Key] = []
                try reader.beginArray()
                while try reader.nextElement() { keys.append(Key(try reader.string())) }
                success.keys = keys
            case "distances":
                var distances: [Double] = []
                try reader.beginArray()
                while try reader.nextElement() { distances.append(try reader.metres()) }
                success.distances = distances
            default: try reader.skipValue()
            }
        }
        return success
    }

    private func failure(_ reader: inout JSONReader) throws(JSONError) -> ObserveFailure {
        var failure = ObserveFailure(code: "", message: "")
        try reader.beginObject()
        while let name = try reader.nextName() {
            switch name {
            case "code": failure.code = try reader.string()
            case "message": failure.message = try reader.string()
            case "value": failure.value = try reader.writeValue().node
            case "member": failure.member = try reader.string()
            case "retryAfterMs": failure.retryAfterMs = try reader.int()
            case "messages":
                try reader.beginArray()
                while try reader.nextElement() { failure.messages.append(try reader.string()) }
            default: try reader.skipValue()
            }
        }
        return failure
    }

    private func event(_ members: Members) -> ObserveEvent? {
        if members.event == "ready" { return .ready }
        if members.event == "count" { return members.count.map { .count(Int($0)) } }
        if members.event == "moved" { return members.key.map { .moved(key: $0, prev: members.prev, distance: members.distance) } }
        guard let value = members.value else { return nil }
        if members.event == "value" { return .value(value) }
        guard let key = members.key else { return nil }
        switch members.event {
        case "added": return .added(key: key, value: value, prev: members.prev, distance: members.distance)
        case "changed": return .changed(key: key, value: value, prev: members.prev, distance: members.distance)
        case "removed": return .removed(key: key, value: value, distance: members.distance, why: members.why)
        default: return nil
        }
    }
}

extension JSONReader {
    fileprivate mutating func metres() throws(JSONError) -> Double {
        switch try number() {
        case .int(let number): return Double(number)
        case .double(let number): return number
        default: throw .unexpectedType(offset: offset)
        }
    }
}
