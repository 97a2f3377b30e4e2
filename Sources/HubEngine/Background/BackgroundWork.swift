import DequeModule
import Dispatch
import Glibc
import Synchronization

/// Runs work whose cost depends on the size of the data: encoding, hashing, sorting and checking of large values. It works on immutable
/// trees off the database queue, so that requests of other clients continue meanwhile.
public struct BackgroundWork: Sendable {
    /// The purpose of a job.
    public enum Kind: Sendable {
        /// For one request, which waits for it: a large write, a comparison, a selection. One user may have many of them.
        case preparation
        /// Encoding of large values for connections.
        case encoding
        /// For several requests or none: indexes that several wait for, and releasing large values.
        case upkeep
    }

    private let submit: @Sendable (Kind, @escaping @Sendable () -> Void) -> Void

    /// - Parameter submit: runs the work soon, on any thread but the caller's queue.
    public init(_ submit: @escaping @Sendable (Kind, @escaping @Sendable () -> Void) -> Void) { self.submit = submit }

    /// Uses one executor for all kinds.
    public init(_ submit: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void) { self.init { _, work in submit(work) } }

    /// Runs the work soon, on any thread. Unordered.
    public func run(_ kind: Kind, _ work: @escaping @Sendable () -> Void) { submit(kind, work) }

    /// A pool for preparations and upkeep, of which one thread never runs preparations, and two threads for encoding.
    /// - Parameter count: threads of the pool; at least 2.
    public static func threads(_ count: Int) -> BackgroundWork {
        let most = max(2, count)
        let threads = BackgroundThreads(most: most, ofPreparations: most - 1)
        let encoding = BackgroundThreads(most: 2, ofPreparations: 2)
        return BackgroundWork { kind, work in
            kind == .encoding ? encoding.run(isPreparation: false, work) : threads.run(isPreparation: kind == .preparation, work)
        }
    }

    /// Minimum threads of `shared` on a machine with few processors: one for upkeep, one for other users, and as many as one user's
    /// parallel preparations (``EngineLimits/preparationsOfUser``).
    static let leastThreads = 4

    /// The default of a database: a thread for each processor, at least four, and two for encoding.
    public static let shared = BackgroundWork.threads(max(leastThreads, sysconf(Int32(_SC_NPROCESSORS_ONLN))))
}

/// Runs a fixed number of jobs in parallel, in the order of arrival. Preparations have a lower limit, even when threads are idle.
private final class BackgroundThreads: Sendable {
    private struct Piece: Sendable {
        /// Its number in the order of arrival.
        let number: Int
        let isPreparation: Bool
        let work: @Sendable () -> Void
    }

    private struct State {
        var preparations: Deque<Piece> = []
        var others: Deque<Piece> = []
        var count = 0
        var running = 0
        var preparing = 0
    }

    private let most: Int
    private let mostPreparations: Int
    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "vigla.background", qos: .utility, attributes: .concurrent)

    init(most: Int, ofPreparations mostPreparations: Int) {
        self.most = most
        self.mostPreparations = mostPreparations
    }

    func run(isPreparation: Bool, _ work: @escaping @Sendable () -> Void) {
        state.withLock { state in
            state.count += 1
            let piece = Piece(number: state.count, isPreparation: isPreparation, work: work)
            if isPreparation { state.preparations.append(piece) } else { state.others.append(piece) }
        }
        begin()
    }

    private func begin() {
        while let piece = next() {
            queue.async { [self] in
                piece.work()
                done(piece)
                begin()
            }
        }
    }

    /// The oldest job that may run now.
    private func next() -> Piece? {
        state.withLock { state in
            guard state.running < most else { return nil }
            let preparation = state.preparing < mostPreparations ? state.preparations.first?.number : nil
            let isPreparation = preparation.map { $0 < state.others.first?.number ?? .max } ?? false
            guard let piece = isPreparation ? state.preparations.popFirst() : state.others.popFirst() else { return nil }
            state.running += 1
            if isPreparation { state.preparing += 1 }
            return piece
        }
    }

    private func done(_ piece: Piece) {
        state.withLock { state in
            state.running -= 1
            if piece.isPreparation { state.preparing -= 1 }
        }
    }
}
