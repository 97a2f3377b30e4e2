import JSONTree

/// Tokens that were found good, so that a device that shows its token again costs no signature check.
///
/// Two generations bound it without bookkeeping for each use: new and used tokens are in the young one; when that holds half of
/// the limit it becomes the old one, and what was not used since is dropped.
struct VerifiedTokenCache {
    fileprivate struct Generation {
        var tokens: [Tail: Entry] = [:]
        /// Where a user's tokens are; may name some that are gone.
        var byUser: [String: [Tail]] = [:]
    }

    fileprivate struct Entry {
        let text: Text
        let token: VerifiedToken
    }

    /// The last 32 letters of a token: 192 bits of its signature, which nobody chooses. The whole text is compared as well.
    fileprivate struct Tail: Hashable {
        private let words: (UInt64, UInt64, UInt64, UInt64)

        init?(_ text: String) {
            var text = text
            let words: (UInt64, UInt64, UInt64, UInt64)? = text.withUTF8 { bytes in
                guard bytes.count >= 32, let base = bytes.baseAddress else { return nil }
                let end = UnsafeRawPointer(base) + bytes.count
                return (
                    (end - 32).loadUnaligned(as: UInt64.self), (end - 24).loadUnaligned(as: UInt64.self),
                    (end - 16).loadUnaligned(as: UInt64.self), (end - 8).loadUnaligned(as: UInt64.self)
                )
            }
            guard let words else { return nil }
            self.words = words
        }

        static func == (a: Tail, b: Tail) -> Bool { a.words == b.words }

        func hash(into hasher: inout Hasher) {
            hasher.combine(words.0)
            hasher.combine(words.3)
        }
    }

    /// What made room, to be freed where nobody waits for it.
    struct Dropped {
        fileprivate let generation: Generation
    }

    /// Most tokens of a generation; 0 keeps none.
    private let half: Int
    private var young = Generation()
    private var old = Generation()

    /// - Parameter limit: most tokens, an even number; 0 keeps none.
    init(limit: Int) { half = (limit + 1) / 2 }

    /// Tokens that are held.
    var count: Int { young.tokens.count + old.tokens.count }

    /// The token with exactly this text. O(length)
    mutating func token(_ text: String) -> (VerifiedToken, Dropped?)? {
        guard let tail = Tail(text) else { return nil }
        if let entry = young.tokens[tail] { return entry.text == Text(text) ? (entry.token, nil) : nil }
        guard let entry = old.tokens[tail], entry.text == Text(text) else { return nil }
        old.tokens[tail] = nil
        return (entry.token, add(tail, entry))
    }

    mutating func insert(_ text: String, _ token: VerifiedToken) -> Dropped? {
        guard half > 0, let tail = Tail(text) else { return nil }
        old.tokens[tail] = nil
        return add(tail, Entry(text: Text(text), token: token))
    }

    private mutating func add(_ tail: Tail, _ entry: Entry) -> Dropped? {
        var dropped: Dropped?
        if young.tokens.count >= half, young.tokens[tail] == nil {
            dropped = Dropped(generation: old)
            (old, young) = (young, Generation())
        }
        if young.tokens.updateValue(entry, forKey: tail) == nil { young.byUser[entry.token.uid, default: []].append(tail) }
        return dropped
    }

    /// Drops the tokens of a user. O(their number)
    mutating func forget(uid: String) {
        for tail in young.byUser.removeValue(forKey: uid) ?? [] { young.tokens[tail] = nil }
        for tail in old.byUser.removeValue(forKey: uid) ?? [] { old.tokens[tail] = nil }
    }

    mutating func forget(_ text: String) {
        guard let tail = Tail(text) else { return }
        young.tokens[tail] = nil
        old.tokens[tail] = nil
    }

    mutating func removeAll() -> [Dropped] {
        defer { (young, old) = (Generation(), Generation()) }
        return [Dropped(generation: young), Dropped(generation: old)]
    }
}
