import Dispatch
import Synchronization

/// A log that all hubs of a cluster append to and follow, for state that they share beyond the databases' content.
///
///     append, after the position taken ─► stored │ conflict: take the other hubs' records, decide again │ refused
///     the log ─► arrived ─► take ─► apply, together with the position
///
/// One follower per process. It takes and appends on one queue, and may block there within the log's time limits.
public protocol SharedLog: Sendable {
    /// Starts to follow.
    /// - Parameters:
    ///   - place: the last position taken; nil for all of the log.
    ///   - arrived: called on a queue of the log when messages can be taken. The follower hops to its own queue.
    func follow(from place: SharedPlace?, _ arrived: @escaping @Sendable () -> Void)

    /// The messages that have arrived, in order.
    /// - Parameter waitMs: how long to wait for the first message.
    func receive(waitMs: Int) -> [SharedEntry]

    /// Appends a record if the log ends with `place`. Blocks for some seconds at most until the result is known; returns at once while the
    /// log is known to be unreachable.
    func append(_ record: [UInt8], after place: SharedPlace) -> SharedOutcome

    /// Calls back with true when everything in the log at some moment after this call has arrived, or with false on timeout.
    func sync(_ done: @escaping @Sendable (Bool) -> Void)
}

/// A position in a shared log.
public struct SharedPlace: Sendable, Equatable {
    /// When the log was created: a new log of the same name has other content. 0 before the first message is taken.
    public var created: Int64
    /// The sequence number of a message; 0 before the first.
    public var sequence: UInt64
    /// The message's id.
    public var id: UInt64

    public init(created: Int64 = 0, sequence: UInt64 = 0, id: UInt64 = 0) {
        (self.created, self.sequence, self.id) = (created, sequence, id)
    }
}

/// One message of a shared log. There are no gaps between messages.
public struct SharedEntry: Sendable {
    public let place: SharedPlace
    /// The record completed by this message; nil for a part of a record, and for other messages.
    public let record: [UInt8]?
    /// Whether a restart may follow from here: false between the parts of a record.
    public let isComplete: Bool

    public init(_ place: SharedPlace, record: [UInt8]?, isComplete: Bool = true) {
        (self.place, self.record, self.isComplete) = (place, record, isComplete)
    }
}

public enum SharedOutcome: Sendable {
    /// It is now the last record of the log.
    case stored(SharedPlace)
    /// Other hubs have appended first, so it is not in the log. The follower must take messages up to this one.
    case conflict(last: UInt64)
    /// It is not in the log.
    case refused(JournalError)
    /// It may be in the log. In that case it arrives like another hub's record.
    case unknown(String)
}

extension SharedLog {
    /// Blocks until everything that the log held after this call has arrived; for a start.
    /// - Parameter receive: receives arrived messages, so that more can arrive.
    /// - Returns: false on timeout.
    public func waitForAll(withinMs ms: Int, _ receive: () -> Void) -> Bool {
        let end = DispatchTime.now() + .milliseconds(ms)
        while true {
            let answer = SyncAnswer()
            sync { answer.complete($0) }
            var isReached: Bool?
            while isReached == nil {
                isReached = answer.wait(ms: 20)
                receive()
            }
            if isReached == true { return true }
            guard DispatchTime.now() < end else { return false }
            _ = answer.wait(ms: 100)
        }
    }
}

private final class SyncAnswer: Sendable {
    private let isReached = Mutex<Bool?>(nil)
    private let answered = DispatchSemaphore(value: 0)

    func complete(_ isReached: Bool) {
        self.isReached.withLock { $0 = isReached }
        answered.signal()
    }

    func wait(ms: Int) -> Bool? {
        _ = answered.wait(timeout: .now() + .milliseconds(ms))
        return isReached.withLock { $0 }
    }
}
