import Cryptography
import DispatchNet
import Scheduling

/// Limits attempts by subject. A value type; callers pass the time of a monotonic clock (accounts contract §13). Never used for `lookup` and
/// `token`: an error there would sign users out.
///
///     admit…  before the work: nil, and it is counted as a failure │ ms to wait, and nothing is counted
///     after the work: `passed` (correct: reset), `withdrawn` (not checked: removed); a wrong one needs no call, it stays counted
///
/// Counting before the work bounds concurrent guesses. Mail addresses without an account are counted like those of accounts. Subjects are
/// stored as hashes, which do not reveal the input.
struct Throttle {
    /// The kind of a counted subject. The raw value is the prefix of the subject's stored name.
    enum Kind: String, CaseIterable {
        case account = "a", pair = "p", address = "n", password = "w", signUp = "s", mailTo = "m", mailFrom = "f", code = "c"
    }

    private let settings: ThrottleSettings
    private var failures = Table<Failures>()
    private var buckets: [Kind: Table<TokenBucket>] = [:]
    /// Subjects whose state is not stored yet.
    private var changed: Set<Subject> = []
    /// The number of passwords being hashed, by network.
    private var stretching: [String: Int] = [:]

    init(_ settings: ThrottleSettings) { self.settings = settings }

    // MARK: Passwords

    /// Admits a password check.
    /// - Parameters:
    ///   - account: the account's name as sent (mail address, alias), or a uid: use one spelling per account.
    ///   - peer: the client's network address.
    /// - Returns: nil, or ms to wait.
    mutating func admitPassword(of account: String, from peer: String, now: Int64) -> Int64? {
        guard settings.isOn else { return nil }
        let (who, pair, address, password) = subjects(account, peer)
        let wait = max(
            failures[who]?.wait(now: now) ?? 0, waiting(pair, settings.failuresOfPair, now),
            waiting(address, settings.failuresOfAddress, now),
            waiting(password, settings.passwordsOfAddress, now))
        guard wait == 0 else { return wait }
        let settings = self.settings
        change(who, now) { $0.add(settings, now: now) }
        record(pair, settings.failuresOfPair, now)
        record(address, settings.failuresOfAddress, now)
        record(password, settings.passwordsOfAddress, now)
        return nil
    }

    /// The password was correct: resets the account's failures, and those of this address with this account. The hashing stays counted.
    mutating func passwordPassed(of account: String, from peer: String) {
        guard settings.isOn else { return }
        let (who, pair, address, _) = subjects(account, peer)
        forget(who)
        forget(pair)
        giveBack(address, settings.failuresOfAddress)
    }

    /// The password was not checked.
    mutating func passwordWithdrawn(of account: String, from peer: String, now: Int64) {
        guard settings.isOn else { return }
        let (who, pair, address, password) = subjects(account, peer)
        change(who, now) { $0.withdraw() }
        giveBack(pair, settings.failuresOfPair)
        giveBack(address, settings.failuresOfAddress)
        giveBack(password, settings.passwordsOfAddress)
    }

    /// Admits setting a new password.
    mutating func admitNewPassword(from peer: String, now: Int64) -> Int64? {
        admit(Subject(.password, NetworkAddress.network(of: peer)), settings.passwordsOfAddress, now)
    }

    /// Counts an admitted password as queued; false if its network has too many. Each counted one must `leave`.
    mutating func enter(from peer: String) -> Bool {
        guard settings.isOn else { return true }
        let network = NetworkAddress.network(of: peer)
        guard stretching[network, default: 0] < settings.passwordsAtOnce else { return false }
        stretching[network, default: 0] += 1
        return true
    }

    mutating func leave(from peer: String) {
        guard settings.isOn else { return }
        let network = NetworkAddress.network(of: peer)
        let left = stretching[network, default: 0] - 1
        stretching[network] = left > 0 ? left : nil
    }

    /// The owner of the mail address has reset the password: resets all counts of the account.
    mutating func lift(_ account: String) {
        guard settings.isOn else { return }
        forget(Subject(.account, account))
    }

    // MARK: Other attempts

    /// Admits a new account.
    mutating func admitSignUp(from peer: String, now: Int64) -> Int64? {
        admit(Subject(.signUp, NetworkAddress.network(of: peer)), settings.signUps, now)
    }

    /// Admits a mail; counted even if no mail will be sent to the address.
    mutating func admitMail(to mailAddress: String, from peer: String, now: Int64) -> Int64? {
        guard settings.isOn else { return nil }
        let (to, from) = (Subject(.mailTo, mailAddress), Subject(.mailFrom, NetworkAddress.network(of: peer)))
        let wait = max(waiting(to, settings.mailsTo, now), waiting(from, settings.mailsFrom, now))
        guard wait == 0 else { return wait }
        record(to, settings.mailsTo, now)
        record(from, settings.mailsFrom, now)
        return nil
    }

    /// Admits an attempt with a mailed code.
    mutating func admitCode(from peer: String, now: Int64) -> Int64? {
        admit(Subject(.code, NetworkAddress.network(of: peer)), settings.codes, now)
    }

    // MARK: Storage

    /// A row of the store, with times by the wall clock; a nil state deletes the row.
    struct Row: Equatable {
        var subject: String
        var state: [UInt8]?
        /// When the row was written, ms since the epoch.
        var writtenAt: Int64
    }

    /// The changes since the last call.
    /// - Parameter wall: ms since the epoch.
    mutating func drainChanges(now: Int64, wall: Int64) -> [Row] {
        defer { changed = [] }
        return changed.map { subject in
            let state = subject.kind == .account
                ? failures[subject]?.shifted(by: wall - now).bytes : buckets[subject.kind]?[subject]?.shifted(by: wall - now).bytes
            return Row(subject: subject.text, state: state, writtenAt: wall)
        }
    }

    var hasChanges: Bool { !changed.isEmpty }

    /// Restores rows of the store; malformed and expired ones are dropped. A row written in the future counts as written now.
    /// - Parameter wall: ms since the epoch.
    mutating func restore(_ rows: [Row], now: Int64, wall: Int64) {
        for row in rows {
            guard let subject = Subject(row.subject), let state = row.state else { continue }
            let shift = now - max(wall, row.writtenAt)
            if row.writtenAt > wall { changed.insert(subject) }
            if subject.kind == .account {
                guard let state = Failures(state)?.shifted(by: shift) else { continue }
                if state.forgottenAt(settings) > now { failures[subject] = state } else { changed.insert(subject) }
            } else {
                guard let state = TokenBucket(state)?.shifted(by: shift) else { continue }
                if state.fullAt > now { buckets[subject.kind, default: Table()][subject] = state } else { changed.insert(subject) }
            }
        }
    }

    /// The changes from `drainChanges` could not be stored: the next call returns them again.
    mutating func keepChanges(_ rows: [Row]) { changed.formUnion(rows.compactMap { Subject($0.subject) }) }

    /// Merges another hub's counts. Both hubs continued from the same state, so the larger count holds. Trying several hubs then gains no more
    /// than each allows until they exchange counts. A reset there applies here too, unless there were failures here since.
    mutating func merge(_ rows: [Row], now: Int64, wall: Int64) {
        for row in rows {
            guard let subject = Subject(row.subject) else { continue }
            guard let bytes = row.state else {
                guard !changed.contains(subject) else { continue }
                if subject.kind == .account { failures[subject] = nil } else { buckets[subject.kind]?[subject] = nil }
                continue
            }
            let shift = now - max(wall, row.writtenAt)
            if subject.kind == .account {
                guard let state = Failures(bytes)?.shifted(by: shift), state.forgottenAt(settings) > now else { continue }
                let settings = self.settings
                failures[subject, default: Failures()].merge(state)
                changed.formUnion(failures.shrink(to: settings.mostSubjects, now: now) { $0.forgottenAt(settings) })
            } else {
                guard let state = TokenBucket(bytes)?.shifted(by: shift), state.fullAt > now else { continue }
                var table = buckets.removeValue(forKey: subject.kind) ?? Table()
                if (table[subject]?.fullAt ?? .min) < state.fullAt { table[subject] = state }
                changed.formUnion(table.shrink(to: settings.mostSubjects, now: now) { $0.fullAt })
                buckets[subject.kind] = table
            }
        }
    }

    /// Number of subjects.
    var count: Int { failures.count + buckets.values.reduce(0) { $0 + $1.count } }

    // MARK: Tables

    private func subjects(_ account: String, _ peer: String) -> (account: Subject, pair: Subject, address: Subject, password: Subject) {
        let network = NetworkAddress.network(of: peer)
        let pair = Subject(.pair, network + " " + account)
        return (Subject(.account, account), pair, Subject(.address, network), Subject(.password, network))
    }

    private mutating func admit(_ subject: Subject, _ rate: ThrottleSettings.Rate, _ now: Int64) -> Int64? {
        guard settings.isOn else { return nil }
        let wait = waiting(subject, rate, now)
        guard wait == 0 else { return wait }
        record(subject, rate, now)
        return nil
    }

    private func waiting(_ subject: Subject, _ rate: ThrottleSettings.Rate, _ now: Int64) -> Int64 {
        buckets[subject.kind]?[subject]?.wait(rate.bucket, now: now) ?? 0
    }

    private mutating func record(_ subject: Subject, _ rate: ThrottleSettings.Rate, _ now: Int64) {
        var table = buckets.removeValue(forKey: subject.kind) ?? Table()
        table[subject, default: TokenBucket(fullAt: now)].record(rate.bucket, now: now)
        changed.insert(subject)
        changed.formUnion(table.shrink(to: settings.mostSubjects, now: now) { $0.fullAt })
        buckets[subject.kind] = table
    }

    private mutating func giveBack(_ subject: Subject, _ rate: ThrottleSettings.Rate) {
        guard buckets[subject.kind]?[subject] != nil else { return }
        buckets[subject.kind]?[subject]?.giveBack(rate.bucket)
        changed.insert(subject)
    }

    private mutating func change(_ subject: Subject, _ now: Int64, _ body: (inout Failures) -> Void) {
        body(&failures[subject, default: Failures()])
        changed.insert(subject)
        let settings = self.settings
        changed.formUnion(failures.shrink(to: settings.mostSubjects, now: now) { $0.forgottenAt(settings) })
    }

    private mutating func forget(_ subject: Subject) {
        if subject.kind == .account { failures[subject] = nil } else { buckets[subject.kind]?[subject] = nil }
        changed.insert(subject)
    }
}

/// An anonymised counted subject: a kind and 128 bits of a hash.
struct Subject: Hashable {
    let kind: Throttle.Kind
    let hash: UInt64, more: UInt64

    init(_ kind: Throttle.Kind, _ name: String) {
        self.kind = kind
        let digest = HashFunction.sha256.hash(name.utf8)
        hash = bigEndian(digest[0..<8])
        more = bigEndian(digest[8..<16])
    }

    /// Parses the stored form: the kind's letter and 32 hexadecimal digits.
    init?(_ text: String) {
        let digits = Array(text.utf8)
        guard digits.count == 33, let kind = Throttle.Kind(rawValue: String(text.prefix(1))) else { return nil }
        guard let hash = UInt64(String(decoding: digits[1..<17], as: UTF8.self), radix: 16) else { return nil }
        guard let more = UInt64(String(decoding: digits[17...], as: UTF8.self), radix: 16) else { return nil }
        (self.kind, self.hash, self.more) = (kind, hash, more)
    }

    var text: String {
        func hex(_ number: UInt64) -> String {
            let digits = String(number, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }
        return kind.rawValue + hex(hash) + hex(more)
    }
}

/// The subjects of one kind, bounded in number.
private struct Table<State> {
    private var states: [Subject: State] = [:]

    var count: Int { states.count }

    subscript(subject: Subject) -> State? {
        get { states[subject] }
        set { states[subject] = newValue }
    }

    subscript(subject: Subject, default state: @autoclosure () -> State) -> State {
        get { states[subject] ?? state() }
        set { states[subject] = newValue }
    }

    /// Above the limit, drops expired subjects and then those that expire first, down to nine tenths. O(n log n), amortised over many calls.
    /// - Returns: the dropped subjects.
    mutating func shrink(to most: Int, now: Int64, _ end: (State) -> Int64) -> [Subject] {
        guard states.count > most else { return [] }
        var gone = states.compactMap { end($0.value) <= now ? $0.key : nil }
        for subject in gone { states[subject] = nil }
        let surplus = states.count - most * 9 / 10
        if states.count > most, surplus > 0 {
            let first = states.sorted { end($0.value) < end($1.value) }.prefix(surplus).map(\.key)
            for subject in first { states[subject] = nil }
            gone += first
        }
        return gone
    }
}
