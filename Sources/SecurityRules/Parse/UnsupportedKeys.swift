/// Keys of rules files that are defined but not implemented by this version. A file with one is refused: authors would rely on an accepted
/// rule that does nothing. A version that implements a key removes it here.
enum UnsupportedKeys {
    /// Keys of a place.
    static let ofPlace: Set<String> = [".alias", ".ingest", ".owner", ".search"]
    /// Keys beside `rules`.
    static let ofFile: Set<String> = ["files"]
    /// Functions of expressions.
    static let functions: Set<String> = ["file"]
    /// Keys of a test case of `vigla rules test`.
    static let ofCase: Set<String> = ["expire"]

    static func message(_ name: String) -> String { "'\(name)' is not supported by this version." }
}
