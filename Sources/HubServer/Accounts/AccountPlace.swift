import JSONTree

/// A place of the tree that belongs to one account, such as `/users/$uid`, and is removed with it.
public struct AccountPlace: Sendable, Hashable, CustomStringConvertible {
    /// Nil stands for the account's id.
    private let keys: [Key?]

    private static let wildcard = "$uid"

    /// Parses a path such as `/users/$uid`.
    /// - Throws: `Fault` for a path without `$uid`, which would belong to all accounts, and for a text that is no path.
    public init(parsing text: String) throws(Fault) {
        let segments = text.split(separator: "/")
        guard segments.contains(Substring(Self.wildcard)) else { throw .withoutUID }
        guard segments.count <= Path.maxDepth else { throw .tooDeep }
        var keys: [Key?] = []
        for segment in segments {
            let key = segment == Self.wildcard ? nil : Key(String(segment))
            if let key, !key.isValid { throw .noKey(String(segment.prefix(64))) }
            keys.append(key)
        }
        self.keys = keys
    }

    /// The place of one account; nil when its id is not a valid key, so that it has no data.
    func path(of uid: String) -> Path? {
        let own = Key(uid)
        return own.isValid ? Path(keys.map { $0 ?? own }) : nil
    }

    /// Whether one place can lie within the other. One write cannot remove both, and removing the outer one is enough.
    public func overlaps(_ other: AccountPlace) -> Bool { zip(keys, other.keys).allSatisfy { $0 == $1 || $0 == nil || $1 == nil } }

    public var description: String { keys.map { "/" + ($0?.string ?? Self.wildcard) }.joined() }

    /// Why a text is not an account place.
    public enum Fault: Error, CustomStringConvertible {
        case withoutUID, tooDeep
        case noKey(String)

        public var description: String {
            switch self {
            case .withoutUID: "there is no $uid in it, so the place is not one account's; write /users/$uid"
            case .tooDeep: "a path has at most \(Path.maxDepth) keys"
            case .noKey(let text): "\"\(text)\" cannot be a key"
            }
        }
    }
}
