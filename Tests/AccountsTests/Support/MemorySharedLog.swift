import Dispatch
import Journal
import Synchronization

/// A shared log in memory, and its followers.
final class MemorySharedLog: Sendable {
    private struct State {
        var records: [[UInt8]] = []
        var listeners: [@Sendable () -> Void] = []
    }

    private let state = Mutex(State())

    var records: [[UInt8]] { state.withLock { $0.records } }

    /// Appends a stranger's record.
    func append(_ record: [UInt8]) { notify(state.withLock { $0.records.append(record); return $0.listeners }) }

    private func notify(_ listeners: [@Sendable () -> Void]) { for listener in listeners { listener() } }

    enum Fault: Sendable {
        /// The log is unreachable.
        case away
        /// The next record is stored, and its answer is lost.
        case silent
    }

    final class Follower: SharedLog {
        private let log: MemorySharedLog
        private let cursor = Mutex<Int>(0)
        let fault = Mutex<Fault?>(nil)
        /// Records arrive only when they are waited for, so appends conflict with those of others.
        let isSlow = Atomic(false)

        init(_ log: MemorySharedLog) { self.log = log }

        func follow(from place: SharedPlace?, _ arrived: @escaping @Sendable () -> Void) {
            cursor.withLock { $0 = Int(place?.sequence ?? 0) }
            log.state.withLock { $0.listeners.append(arrived) }
        }

        func receive(waitMs: Int) -> [SharedEntry] {
            if waitMs == 0, isSlow.load(ordering: .relaxed) { return [] }
            return cursor.withLock { cursor in
                let records = log.records
                defer { cursor = records.count }
                return records[cursor...].enumerated().map { i, record in
                    SharedEntry(Follower.place(cursor + i + 1), record: record)
                }
            }
        }

        func append(_ record: [UInt8], after place: SharedPlace) -> SharedOutcome {
            let fault = self.fault.withLock { fault in
                defer { if fault == .silent { fault = nil } }
                return fault
            }
            if fault == .away { return .refused(.unavailable(reason: "it is away")) }
            let (last, listeners) = log.state.withLock { state in
                guard place.sequence == state.records.count else { return (state.records.count, nil as [@Sendable () -> Void]?) }
                state.records.append(record)
                return (state.records.count, state.listeners)
            }
            guard let listeners else { return .conflict(last: UInt64(last)) }
            log.notify(listeners)
            return fault == .silent ? .unknown("its answer is lost") : .stored(Self.place(last))
        }

        func sync(_ done: @escaping @Sendable (Bool) -> Void) {
            let isAway = fault.withLock { $0 == .away }
            DispatchQueue.global().async { done(!isAway) }
        }

        static func place(_ sequence: Int) -> SharedPlace {
            SharedPlace(created: 1, sequence: UInt64(sequence), id: UInt64(sequence) &* 0x9E37_79B9_7F4A_7C15)
        }
    }

    func follower() -> Follower { Follower(self) }
}
