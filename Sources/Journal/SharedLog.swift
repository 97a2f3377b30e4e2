import Dispatch
import Synchronization

/// A log that all hubs of a cluster append to and follow: for what is the same on all of them beside the databases' content.
///
///     append, behind what was taken ─► stored │ conflict: take what the others appended, decide again │ refused
///     the log ─► arrived ─► take ─► apply, together with the place
///
/// One follower in a process; it takes and appends on one queue, and may block there for as long as the log's bounds say.
public protocol SharedLog: Sendable {
    /// Begins to follow.
    /// - Parameters:
    ///   - place: what was taken before; nil for all of the log.
    ///   - arrived: called on a queue of the log when there is something to take. The follower hops to its own.
    func follow(from place: SharedPlace?, _ arrived: @escaping @Sendable () -> Void)

    /// What has arrived, in order.
    /// - Parameter waitMs: how long to wait if that is nothing.
    func take(waitMs: Int) -> [SharedEntry]

    /// Appends a record if the log ends with `place`. Blocks until that is known, at most for some seconds; at once while it is known that
    /// the log cannot be reached.
    func append(_ record: [UInt8], after place: SharedPlace) -> SharedOutcome

    /// Calls back when all that the log held at some moment after this call has arrived; with false when that is not found out in time.
    func sync(_ done: @escaping @Sendable (Bool) -> Void)
}

/// A place in a shared log.
public struct SharedPlace: Sendable, Equatable {
    /// When the log was made: another one of its name has other content. 0 where nothing was taken yet.
    public var created: Int64
    /// The number of a message; 0 in front of the first.
    public var sequence: UInt64
    /// The message's id.
    public var id: UInt64

    public init(created: Int64 = 0, sequence: UInt64 = 0, id: UInt64 = 0) {
        (self.created, self.sequence, self.id) = (created, sequence, id)
    }
}

/// One message of a shared log. They come without a hole between them.
public struct SharedEntry: Sendable {
    public let place: SharedPlace
    /// The record that is complete with it; nil for a part of one, and for what is none.
    public let record: [UInt8]?
    /// Whether a later start may follow from here: not between the parts of a record.
    public let isComplete: Bool

    public init(_ place: SharedPlace, record: [UInt8]?, isComplete: Bool = true) {
        (self.place, self.record, self.isComplete) = (place, record, isComplete)
    }
}

public enum SharedOutcome: Sendable {
    /// It is in the log and ends there.
    case stored(SharedPlace)
    /// Others have appended; it is not in the log. What is to be taken reaches up to this message.
    case conflict(last: UInt64)
    /// It is not in the log.
    case refused(JournalError)
    /// It may be in the log: then it arrives like another hub's.
    case unknown(String)
}

extension SharedLog {
    /// Asks until all has arrived that the log held after this call. Blocks, for a start.
    /// - Parameter take: takes what has arrived, so that more can.
    /// - Returns: false when that was not found out in time.
    public func waitForAll(withinMs ms: Int, _ take: () -> Void) -> Bool {
        let end = DispatchTime.now() + .milliseconds(ms)
        while true {
            let answer = SyncAnswer()
            sync { answer.tell($0) }
            var isReached: Bool?
            while isReached == nil {
                isReached = answer.wait(ms: 20)
                take()
            }
            if isReached == true { return true }
            guard DispatchTime.now() < end else { return false }
            _ = answer.wait(ms: 100)
        }
    }
}

private final class SyncAnswer: Sendable {
    private let isReached = Mutex<Bool?>(nil)
    private let told = DispatchSemaphore(value: 0)

    func tell(_ isReached: Bool) {
        self.isReached.withLock { $0 = isReached }
        told.signal()
    }

    func wait(ms: Int) -> Bool? {
        _ = told.wait(timeout: .now() + .milliseconds(ms))
        return isReached.withLock { $0 }
    }
}
