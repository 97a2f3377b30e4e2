/// The events for which a descriptor is watched.
struct Interest: OptionSet {
    let rawValue: UInt8
    static let read = Interest(rawValue: 1)
    static let write = Interest(rawValue: 2)
}

/// The events of a descriptor.
struct Readiness: OptionSet {
    let rawValue: UInt8
    static let readable = Readiness(rawValue: 1)
    static let writable = Readiness(rawValue: 2)
    /// An error is pending, or both directions are shut. Always reported.
    static let broken = Readiness(rawValue: 4)
}

/// The kernel's readiness queue with a timer and a doorbell: level-triggered, one per loop, used only on the loop's
/// queue except for `ring`.
///
/// One implementation per platform, in `Poller+<mechanism>.swift`, which also names it `PlatformPoller`; no other file depends on
/// the mechanism.
protocol Poller: AnyObject, Sendable {
    init() throws(NetError)
    /// Readable whenever `collect` would find something: this is what the loop's one DispatchSource watches.
    var descriptor: Int32 { get }

    /// `tag` comes back with each event of the descriptor.
    func add(_ fd: Int32, tag: UInt64, for interest: Interest) throws(NetError)
    func change(_ fd: Int32, tag: UInt64, to interest: Interest)
    func remove(_ fd: Int32)

    /// Fetches a batch and returns its number of events. Waits for the first one if it may, without a time limit of its own:
    /// a limit would set and cancel a kernel timer for every wait, which on a virtual machine costs as much as the wake-up
    /// that is saved.
    func collect(waiting: Bool) -> Int
    /// The `i`th event of the last batch; `PollerTag` for the poller's own.
    func event(_ i: Int) -> (tag: UInt64, readiness: Readiness)

    /// Schedules one event `PollerTag.timer` at a time of the monotonic clock; replaces the time set before.
    func armTimer(atNs: UInt64)
    /// Triggers an event `PollerTag.doorbell`. From any thread; nothing happens after `close`.
    func ring()
    /// An event of the poller's own was seen.
    func acknowledge(_ tag: UInt64)

    /// Disables `ring`; the descriptor of the poller itself stays until `close`.
    func silence()
    func close()
}

/// The tags of a poller's own events.
enum PollerTag {
    static let timer = UInt64.max
    static let doorbell = UInt64.max - 1
}
