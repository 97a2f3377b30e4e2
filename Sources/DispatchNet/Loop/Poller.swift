/// What a descriptor is watched for.
struct Interest: OptionSet {
    let rawValue: UInt8
    static let read = Interest(rawValue: 1)
    static let write = Interest(rawValue: 2)
}

/// What happened to a descriptor.
struct Readiness: OptionSet {
    let rawValue: UInt8
    static let readable = Readiness(rawValue: 1)
    static let writable = Readiness(rawValue: 2)
    /// An error is pending, or both directions are shut. Reported without being asked for.
    static let broken = Readiness(rawValue: 4)
}

/// The kernel's readiness queue: level-triggered, one per loop, used only on the loop's queue.
/// One implementation per platform, in `Poller+<mechanism>.swift`.
protocol Poller {
    init() throws(NetError)
    /// Readable whenever `collect` would find something: this is what the loop's one DispatchSource watches.
    var descriptor: Int32 { get }
    /// `tag` comes back with each event of the descriptor.
    func add(_ fd: Int32, tag: UInt64, for interest: Interest) throws(NetError)
    func change(_ fd: Int32, tag: UInt64, to interest: Interest)
    func remove(_ fd: Int32)
    /// Fetches a batch, waiting at most `withinMs` for its first event, and says how many events it has.
    func collect(withinMs: Int32) -> Int
    /// The `i`th event of the last batch.
    func event(_ i: Int) -> (tag: UInt64, readiness: Readiness)
    func close()
}
