/// When keys of another service are fetched. A pure value with the clock handed in: ms that never step.
///
///     none, or past their age ──► fetch (after a failure: not before `retrySeconds`)
///     fresh, key not among them ► fetch (not before `unknownKeySeconds` since the last try)
///     fetch fails ─────────────► what is held stays in use for `staleSeconds`; nothing held: no token is accepted
struct KeySchedule {
    private let settings: KeyFetchSettings
    private(set) var freshUntil: Int64 = .min
    private var lastTry: Int64?
    private var hasFailed = false

    init(_ settings: KeyFetchSettings) { self.settings = settings }

    func isFresh(_ now: Int64) -> Bool { now < freshUntil }

    /// Whether what is held may be used when nothing newer can be had.
    func isUsable(_ now: Int64) -> Bool { now < freshUntil.addingClamped(Int64(settings.staleSeconds) * 1000) }

    /// Whether to fetch for a token that needs a key.
    /// - Parameter isHeld: whether that very key is there.
    mutating func wantsFetch(isHeld: Bool, _ now: Int64) -> Bool {
        if isFresh(now) {
            if isHeld || !isOver(settings.unknownKeySeconds, now) { return false }
        } else if hasFailed, !isOver(settings.retrySeconds, now) {
            return false
        }
        lastTry = now
        return true
    }

    private func isOver(_ seconds: Int, _ now: Int64) -> Bool {
        // A clock that was set back is no reason to wait for it.
        lastTry.map { now < $0 || now >= $0 + Int64(seconds) * 1000 } ?? true
    }

    /// - Parameter maxAge: seconds, as the answer says.
    mutating func fetched(maxAge: Int?, _ now: Int64) {
        hasFailed = false
        let age = min(max(maxAge ?? settings.defaultAgeSeconds, settings.minAgeSeconds), settings.maxAgeSeconds)
        freshUntil = now + Int64(age) * 1000
    }

    mutating func failed() { hasFailed = true }
}
