/// How much work a password hash is: scrypt's parameters (RFC 7914), bounded so that no stored row can ask for more memory or
/// time than a sign-in may cost.
public struct ScryptParameters: Sendable, Equatable {
    /// log₂ of the number of blocks kept in memory.
    public let ln: Int
    /// Block size, in units of 128 bytes.
    public let r: Int
    /// How often the whole is done, one after the other.
    public let p: Int

    /// Most memory of one hash: 2^ln × r × 128 bytes.
    public static let mostBytes = 256 << 20
    /// Most work of one hash, as 2^ln × r × p: four times the strongest recommendation.
    public static let mostWork = 1 << 22

    /// Nil: out of bounds (ln 1…20, r 1…16, p 1…16, `mostBytes`, `mostWork`).
    public init?(ln: Int, r: Int, p: Int) {
        guard 1...20 ~= ln, 1...16 ~= r, 1...16 ~= p, ln < 16 * r else { return nil }
        guard (1 << ln) * r * 128 <= Self.mostBytes, (1 << ln) * r * p <= Self.mostWork else { return nil }
        (self.ln, self.r, self.p) = (ln, r, p)
    }

    private init(trusted ln: Int, _ r: Int, _ p: Int) { (self.ln, self.r, self.p) = (ln, r, p) }

    /// What new passwords are hashed with (accounts contract §13): 32 MiB for as long as the hash takes.
    public static let standard = ScryptParameters(trusted: 15, 8, 3)
    /// Next to nothing, for tests.
    public static let quick = ScryptParameters(trusted: 4, 8, 1)

    /// Memory of one hash.
    public var bytes: Int { (1 << ln) * r * 128 }
    /// Work of one hash; the unit is a block of 128 bytes mixed twice.
    public var work: Int { (1 << ln) * r * p }

    /// Whether a hash made with these is weaker than one made with the others would be: less memory and work than they ask for.
    func isWeaker(than other: ScryptParameters) -> Bool { work < other.work || bytes < other.bytes }
}
