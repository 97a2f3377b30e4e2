import CNats
import Dispatch
import Glibc
import Synchronization

/// The replicated log of one shard: a JetStream stream with one subject, so that the number of a message is its place in the log.
///
///     append ─► the stream, only behind the named message ─► outcome
///     tail   ◄─ the stream, from a place on, each message once and in order
///
/// From any thread. Calls that wait for the servers run on the log's own queues; callbacks come on these.
final class ShardLog: Sendable {
    struct Settings: Sendable {
        var replicas = 3
        /// Minimum version of the server that leads the log.
        var oldestServer = NatsVersion.oldest
        /// Most bytes of a message, its header included.
        var messageBytes = 1 << 20
        /// Time for which the servers deduplicate messages by id.
        var duplicatesMs: Int64 = 120_000
        /// Timeout of one attempt to append.
        var attemptMs: Int64 = 2_000
        /// Timeout of an append with all its attempts: longer than the servers need to elect a leader (5–10 s).
        var appendMs: Int64 = 15_000
        /// Pause after creating a log, before its state is read.
        var settleMs: Int64 = 500
        /// Messages that may be delivered before the first of them is done.
        var window = 64
    }

    let name: String
    let subject: String
    let settings: Settings
    let connection: NatsConnection
    private let appends: DispatchQueue
    private let calls: DispatchQueue

    init(_ connection: NatsConnection, name: String, settings: Settings = Settings()) {
        self.connection = connection
        self.name = name
        self.settings = settings
        subject = "vigla.log.\(name)"
        appends = DispatchQueue(label: "vigla.cluster.append.\(name)")
        calls = DispatchQueue(label: "vigla.cluster.calls.\(name)")
    }

    // MARK: State

    struct State: Sendable, Equatable {
        /// When it was created, ns since the epoch.
        var created: Int64
        var first: UInt64
        var last: UInt64
        /// The id of the requested message; nil if none was requested, or it is not kept.
        var id: UInt64?
        /// The name of the server that leads it; nil while there is no leader, and on a single server.
        var leader: String?
        /// Bytes of all messages kept.
        var bytes: UInt64 = 0
    }

    enum StateFault: Error, Equatable {
        /// The servers have no such log.
        case missing
        case unreachable(String)
    }

    /// - Parameters:
    ///   - mayCreate: whether to create a missing log.
    ///   - sequence: the message whose id is requested.
    func look(mayCreate: Bool, at sequence: UInt64, _ done: @escaping @Sendable (Result<State, StateFault>) -> Void) {
        calls.async { [self] in
            guard connection.isConnected else { return done(.failure(.unreachable("not connected"))) }
            do throws(StateFault) {
                var state: State
                do throws(StateFault) { state = try info() } catch {
                    guard error == .missing, mayCreate else { throw error }
                    _ = try create()
                    // Hubs that create it at the same moment see different creation times until the servers have agreed on one.
                    usleep(useconds_t(settings.settleMs * 1_000))
                    state = try info()
                }
                if sequence > 0, sequence >= state.first, sequence <= state.last { state.id = try id(at: sequence) }
                done(.success(state))
            } catch { done(.failure(error)) }
        }
    }

    private func info() throws(StateFault) -> State {
        // libnats 3.4 does not return the metadata with the version.
        if let answer = connection.request("$JS.API.STREAM.INFO.\(name)"),
            let refusal = NatsVersion.refusal(of: answer, oldest: settings.oldestServer)
        {
            connection.complain(refusal)
            throw .unreachable(refusal)
        }
        var found: UnsafeMutablePointer<jsStreamInfo>?
        var code = jsErrCode(0)
        let status = js_GetStreamInfo(&found, connection.stream, name, nil, &code)
        return try Self.state(found, status, code)
    }

    private func create() throws(StateFault) -> State {
        var found: UnsafeMutablePointer<jsStreamInfo>?
        var code = jsErrCode(0)
        let status = name.withCString { name in
            subject.withCString { subject in
                var subjects: [UnsafePointer<CChar>?] = [subject]
                return subjects.withUnsafeMutableBufferPointer { subjects in
                    var config = jsStreamConfig()
                    jsStreamConfig_Init(&config)
                    config.Name = name
                    config.Subjects = subjects.baseAddress
                    config.SubjectsLen = 1
                    config.Storage = js_FileStorage
                    config.Replicas = Int64(settings.replicas)
                    config.DenyDelete = true
                    config.AllowDirect = true
                    config.Duplicates = settings.duplicatesMs * 1_000_000
                    config.MaxMsgSize = Int32(settings.messageBytes)
                    return js_AddStream(&found, connection.stream, &config, nil, &code)
                }
            }
        }
        return try Self.state(found, status, code)
    }

    private static func state(
        _ found: UnsafeMutablePointer<jsStreamInfo>?, _ status: natsStatus, _ code: jsErrCode
    ) throws(StateFault) -> State {
        guard status == NATS_OK, let found else {
            throw code == JSStreamNotFoundErr ? .missing : .unreachable(NatsConnection.text(status))
        }
        defer { jsStreamInfo_Destroy(found) }
        let stream = found.pointee
        let leader = stream.Cluster?.pointee.Leader.map { String(cString: $0) }
        return State(created: stream.Created, first: stream.State.FirstSeq, last: stream.State.LastSeq, leader: leader,
            bytes: stream.State.Bytes)
    }

    /// The id of a message, read from the leader: 0 if it does not decode, nil if it does not exist.
    private func id(at sequence: UInt64) throws(StateFault) -> UInt64? {
        try message(at: sequence).map { LogMessage(decoding: $0)?.id ?? 0 }
    }

    /// A message, read from the leader; nil if it does not exist. Blocks.
    func message(at sequence: UInt64) throws(StateFault) -> [UInt8]? {
        var message: OpaquePointer?
        var code = jsErrCode(0)
        let status = js_GetMsg(&message, connection.stream, name, sequence, nil, &code)
        guard status == NATS_OK, let message else {
            if code == JSNoMessageFoundErr { return nil }
            throw .unreachable(NatsConnection.text(status))
        }
        defer { natsMsg_Destroy(message) }
        return Self.bytes(of: message)
    }

    static func bytes(of message: OpaquePointer) -> [UInt8] {
        let count = Int(natsMsg_GetDataLength(message))
        guard count > 0, let data = natsMsg_GetData(message) else { return [] }
        return Array(UnsafeRawBufferPointer(start: data, count: count))
    }

    // MARK: Shortening

    /// Removes the messages before one.
    /// - Parameter done: called with whether the servers have removed them.
    func purge(before sequence: UInt64, _ done: @escaping @Sendable (Bool) -> Void) {
        calls.async { [self] in
            guard connection.isConnected, sequence > 1 else { return done(sequence <= 1) }
            var options = jsOptions()
            jsOptions_Init(&options)
            options.Wait = connection.settings.requestMs
            options.Stream.Purge.Sequence = sequence
            var code = jsErrCode(0)
            done(js_PurgeStream(connection.stream, name, &options, &code) == NATS_OK)
        }
    }

    // MARK: Appending

    /// Appends a message behind another, or finds out that this is impossible. Appends run one after the other.
    /// - Parameters:
    ///   - id: unique among all messages: a message that is appended twice is stored once.
    ///   - after: the message that must be the last one.
    func append(_ bytes: [UInt8], id: UInt64, after: UInt64, _ done: @escaping @Sendable (AppendOutcome) -> Void) {
        appends.async { [self] in
            var attempts = AppendAttempts(after: after)
            let end = DispatchTime.now() + .milliseconds(Int(settings.appendMs))
            var step = AppendAttempts.Step.tryAgain
            while true {
                switch step {
                case .done(let outcome): return done(outcome)
                case .look: step = attempts.receive(holder(of: after + 1, id))
                case .tryAgain:
                    guard DispatchTime.now() < end, natsConnection_Status(connection.handle) != NATS_CONN_STATUS_CLOSED else {
                        return done(attempts.outOfTime)
                    }
                    step = attempts.receive(attempt(bytes, id, after))
                    if step == .tryAgain { usleep(20_000) }
                }
            }
        }
    }

    private func holder(of sequence: UInt64, _ id: UInt64) -> AppendAttempts.Holder {
        guard let found = try? self.id(at: sequence) else { return .notKnown }
        return found == id ? .we : .another
    }

    private func attempt(_ bytes: [UInt8], _ id: UInt64, _ after: UInt64) -> AppendReply {
        guard connection.isConnected else { return .unreachable("not connected to the cluster") }
        var message: OpaquePointer?
        let made = bytes.withUnsafeBytes {
            natsMsg_Create(&message, subject, nil, $0.baseAddress?.assumingMemoryBound(to: CChar.self), Int32($0.count))
        }
        guard made == NATS_OK else { return .unreachable(NatsConnection.text(made)) }
        defer { natsMsg_Destroy(message) }
        // Set by hand: the publish options leave out the number when it is 0.
        natsMsgHeader_Set(message, "Nats-Expected-Last-Sequence", "\(after)")
        natsMsgHeader_Set(message, "Nats-Expected-Stream", name)
        natsMsgHeader_Set(message, "Nats-Msg-Id", String(id, radix: 16))
        var options = jsPubOptions()
        jsPubOptions_Init(&options)
        options.MaxWait = settings.attemptMs
        var ack: UnsafeMutablePointer<jsPubAck>?
        var code = jsErrCode(0)
        let status = js_PublishMsg(&ack, connection.stream, message, &options, &code)
        defer { jsPubAck_Destroy(ack) }
        if status == NATS_OK, let ack {
            return .acknowledged(sequence: ack.pointee.Sequence, isDuplicate: ack.pointee.Duplicate)
        }
        let text = NatsConnection.text(status)
        switch code {
        case JSStreamWrongLastSequenceErr:
            // The text is like "wrong last sequence: 17".
            let digits = text.reversed().prefix { $0.isNumber }.reversed()
            return UInt64(String(digits)).map { .wrongSequence(last: $0) } ?? .unanswered(text)
        case JSStreamMessageExceedsMaximumErr, JSStreamNotMatchErr: return .refused(text)
        default: return status == NATS_NO_RESPONDERS ? .unreachable("the log has no leader") : .unanswered(text)
        }
    }

    // MARK: Following

    /// Follows the log: each message from a place on, once and in order.
    /// - Parameters:
    ///   - receive: called on a queue of the tail; `LogTail.done` lets the next one come.
    func tail(
        from sequence: UInt64, _ receive: @escaping @Sendable (_ tail: LogTail, _ sequence: UInt64, _ bytes: [UInt8]) -> Void,
        missing: @escaping @Sendable (_ tail: LogTail, _ first: UInt64) -> Void
    ) -> LogTail {
        let tail = LogTail(self, calls, from: sequence, receive, missing)
        tail.start()
        return tail
    }
}
