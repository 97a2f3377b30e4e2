import DispatchNet
import Glibc
import JSONTree
import ViglaClient
import WireProtocols

/// The evening, from the first friendship to the last position. Runs on one loop, as all of its clients do.
///
///     prepare (as the operator) ─► connect, sign in, observe ─► walk ─► wait for pending deliveries ─► report
final class Simulation: @unchecked Sendable {
    // because it is used on the loop's queue only.
    let options: WatchMe
    let loop: EventLoop
    /// The operator's client, an administrator: rules do not apply to it.
    let operatorClient: HubClient
    var walkers: [Walker] = []
    var followers: [Follower] = []
    var tally = Tally()
    var phase = Phase.preparing
    /// Keys of this run: leftovers of an earlier one are not counted.
    var posts: Set<Key> = []
    var announcements: Set<Key> = []
    /// Announcements that arrived before the operator got their key.
    var earlyAnnouncements: [Key: Int] = [:]
    var pushIDs = PushIDGenerator()
    var random: SeededGenerator
    private var updatesLeft = 0
    private var notReady = 0
    private var timers: [LoopTimer] = []
    private var startedNs: UInt64 = 0
    private let showsProgress = isatty(1) == 1

    enum Phase { case preparing, walking, settling, reported }

    init(_ options: WatchMe, on loop: EventLoop) {
        self.options = options
        self.loop = loop
        random = SeededGenerator(seed: options.seed)
        var settings = HubClientSettings()
        settings.reconnects = false
        operatorClient = HubClient(options.url.address, on: loop, settings: settings)
    }

    // MARK: preparing

    func start() {
        loop.execute { [self] in
            makePeople()
            operatorClient.authenticate("owner") { [self] in mustSucceed($0, "The operator could not sign in (the hub needs --dev)") }
            befriend()
            operatorClient.connect()
        }
    }

    private func makePeople() {
        for index in 0..<options.walkers {
            walkers.append(Walker(uid: "walker-\(index + 1)", client: makeClient(), walk: Walk(seed: options.seed &+ UInt64(index) &* 7_919)))
        }
        for index in 0..<options.followers { followers.append(Follower(uid: "follower-\(index + 1)", client: makeClient())) }
        for pair in 0..<max(options.walkers, options.followers) {
            let (walker, follower) = (pair % options.walkers, pair % options.followers)
            followers[follower].trails[walker] = Trail()
            walkers[walker].followers.append(followers[follower].uid)
        }
    }

    private func makeClient() -> HubClient {
        let hasConnected = Flag()
        return HubClient(options.url.address, on: loop) { [self] state in
            switch state {
            case .connected:
                if hasConnected.isSet { tally.reconnects += 1 }
                hasConnected.isSet = true
            case .credentialRefused(let failure): tally.failed("sign-in: \(failure.message)")
            default: break
            }
        }
    }

    /// Profiles and friendships, a few hundred places per update; leftovers of an earlier run are removed.
    private func befriend() {
        var writes: [(Path, WriteValue)] = []
        for walker in walkers {
            writes.append((Path(["users", Key(walker.uid)]), WriteValue(["name": .string(walker.uid)])))
            for follower in walker.followers {
                writes.append((Path(["users-friends", Key(walker.uid), Key(follower)]), WriteValue("added")))
                writes.append((Path(["users-friends", Key(follower), Key(walker.uid)]), WriteValue("added")))
            }
        }
        for follower in followers {
            writes.append((Path(["users", Key(follower.uid)]), WriteValue(["name": .string(follower.uid)])))
            writes.append((Path(["users-follow", Key(follower.uid)]), WriteValue(.null)))
            writes.append((Path(["timeline", Key(follower.uid)]), WriteValue(.null)))
        }
        updatesLeft = (writes.count + 299) / 300
        for start in stride(from: 0, to: writes.count, by: 300) {
            operatorClient.update(.root, Array(writes[start..<min(start + 300, writes.count)])) { [self] result in
                guard mustSucceed(result, "The operator could not prepare the people") else { return }
                updatesLeft -= 1
                if updatesLeft == 0 { connectPeople() }
            }
        }
    }

    // MARK: connecting

    private func connectPeople() {
        notReady = walkers.count + followers.count
        for (index, follower) in followers.enumerated() {
            signIn(follower.client, follower.uid)
            for walker in follower.trails.keys { observePosition(follower, of: walker) }
            observeTimeline(follower)
            observeAnnouncements(follower)
            ready(follower.client, index)
        }
        for (index, walker) in walkers.enumerated() {
            signIn(walker.client, walker.uid)
            ready(walker.client, index)
        }
    }

    private func signIn(_ client: HubClient, _ uid: String) {
        do throws(DevelopmentToken.ClaimsError) {
            let token = try DevelopmentToken.mint(uid: uid, claims: #"{"email_verified":true}"#)
            client.authenticate(token) { [self] in mustSucceed($0, "\(uid) could not sign in") }
        } catch { stop("\(error)") }
    }

    /// Connects a client; a ping's answer comes after those of the observers before it.
    private func ready(_ client: HubClient, _ index: Int) {
        client.perform(.ping) { [self] result in
            guard mustSucceed(result, "A person could not connect") else { return }
            notReady -= 1
            if notReady == 0 { walk() }
        }
        // Twenty at a time: a real evening does not begin within one millisecond.
        loop.schedule(afterMs: index / 20, everyMs: nil) { client.connect() }
    }

    // MARK: walking

    private func walk() {
        guard phase == .preparing else { return }
        phase = .walking
        startedNs = Self.nowNs()
        if showsProgress { print("\(walkers.count) people walk, \(followers.count) watch.\(options.seconds == 0 ? " Ctrl-C ends it." : "")") }
        for (index, walker) in walkers.enumerated() {
            // Phones do not tick together.
            every(options.tickMs, firstAfterMs: options.tickMs * index / walkers.count) { [self] in tick(walker) }
        }
        if options.dangerEvery > 0 { every(options.dangerEvery * 1_000, firstAfterMs: options.dangerEvery * 500) { [self] in raiseDanger() } }
        if options.announceEvery > 0 { every(options.announceEvery * 1_000, firstAfterMs: min(2_000, options.announceEvery * 500)) { [self] in announce() } }
        if showsProgress { every(1_000, firstAfterMs: 1_000) { [self] in showProgress() } }
        if options.seconds > 0 { loop.schedule(afterMs: options.seconds * 1_000, everyMs: nil) { [self] in wind() } }
    }

    private func every(_ ms: Int, firstAfterMs: Int, _ work: @escaping @Sendable () -> Void) {
        timers.append(loop.schedule(afterMs: firstAfterMs, everyMs: ms, work))
    }

    private func showProgress() {
        let text = "\r\u{1B}[K\((Self.nowNs() - startedNs) / 1_000_000_000) s: \(tally.progress)"
        text.utf8CString.withUnsafeBytes { _ = write(1, $0.baseAddress, $0.count - 1) }
    }

    // MARK: ending

    /// Stops the walk; pending deliveries may still arrive.
    func wind() {
        if phase == .preparing { stop("Interrupted before the walk began.") }
        guard phase == .walking else { return }
        phase = .settling
        for timer in timers { timer.cancel() }
        loop.schedule(afterMs: 10_000, everyMs: nil) { [self] in report() }
        settle()
    }

    private func settle() {
        guard phase == .settling else { return }
        // Wait a moment longer than needed, so that duplicate deliveries are seen too.
        let isDone = tally.everythingArrived
        loop.schedule(afterMs: isDone ? 200 : 50, everyMs: nil) { [self] in isDone ? report() : settle() }
    }

    private func report() {
        guard phase == .settling else { return }
        phase = .reported
        let seconds = Double((Self.nowNs() - startedNs) / 100_000_000) / 10
        if showsProgress { print("\r\u{1B}[K", terminator: "") }
        tally.countMissing(followers, walkers)
        print(tally.report("\(walkers.count) walkers, \(followers.count) followers, \(seconds) s, a position every \(options.tickMs) ms"))
        exit(tally.isPerfect ? 0 : 1)
    }

    @discardableResult
    private func mustSucceed<Value>(_ result: Result<Value, ClientError>, _ what: String) -> Bool {
        if case .failure(let error) = result { stop("\(what): \(error)") }
        return true
    }

    private func stop(_ message: String) -> Never {
        let text = "watchme-simulation: \(message)\n"
        text.utf8CString.withUnsafeBytes { _ = write(2, $0.baseAddress, $0.count - 1) }
        exit(1)
    }

    static func nowNs() -> UInt64 {
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        return UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
    }

    private final class Flag: @unchecked Sendable {
        // because it is used on the loop only.
        var isSet = false
    }
}

extension Tally {
    /// Counts steps missing at the end of a trail, which no later position reveals.
    fileprivate mutating func countMissing(_ followers: [Follower], _ walkers: [Walker]) {
        for follower in followers {
            for (walker, trail) in follower.trails { lost += walkers[walker].history.steps.count - trail.next }
        }
    }
}
