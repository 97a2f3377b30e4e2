/// The keys of rules files that have a meaning and that this version does not act on. A file with one of them is refused: a rule that is
/// accepted and does nothing would be believed. A version that acts on a key takes its name out of here.
enum UnsupportedKeys {
    /// Keys of a place.
    static let ofPlace: Set<String> = [
        ".alias", ".ingest", ".notify",
        ".owner", ".search", ".watch", ".webhook",
    ]
    /// Keys beside `rules`.
    static let ofFile: Set<String> = ["files"]
    /// Functions of expressions.
    static let functions: Set<String> = ["file"]
    /// Keys of a case of `vigla rules test`.
    static let ofCase: Set<String> = ["expire"]

    static func message(_ name: String) -> String { "'\(name)' is not supported by this version." }
}
