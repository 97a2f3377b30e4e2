/// Where a commit is stored when it is acknowledged.
public enum Durability: String, Sendable, CaseIterable {
    /// On the disk: survives a power cut (SQLite `synchronous=FULL`).
    case full
    /// With the operating system: survives a crash of the process; a power cut may lose the last moments, never the order
    /// (SQLite `synchronous=NORMAL`).
    case normal

    /// The value of SQLite's `PRAGMA synchronous`.
    var pragma: Int { self == .full ? 2 : 1 }
}
