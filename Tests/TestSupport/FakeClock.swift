import Synchronization

/// A clock that stands still until the test moves it. It tells the time twice: the wall clock, which can be set, and the steady
/// one, which only goes on.
package final class FakeClock: Sendable {
    private let time: Mutex<(wall: Int64, steady: Int64)>

    /// - Parameter ms: what the wall clock shows, since the epoch.
    package init(ms: Int64 = 1_790_000_000_000) { time = Mutex((ms, 77_000)) }

    /// ms of the wall clock since the epoch. Setting it leaves the steady clock alone.
    package var ms: Int64 {
        get { time.withLock { $0.wall } }
        set { time.withLock { $0.wall = newValue } }
    }

    /// Whole seconds of the wall clock since the epoch.
    package var seconds: Int64 { ms / 1000 }
    package var steadyMs: Int64 { time.withLock { $0.steady } }

    /// ms of the wall clock, for what asks a closure.
    package func now() -> Int64 { ms }

    /// Time goes by, on both.
    package func advance(seconds: Int64) {
        time.withLock { $0 = ($0.wall + seconds * 1000, $0.steady + seconds * 1000) }
    }

    /// The wall clock alone is set, forwards or back.
    package func step(seconds: Int64) { time.withLock { $0.wall += seconds * 1000 } }
}
