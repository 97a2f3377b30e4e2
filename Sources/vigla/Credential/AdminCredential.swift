import ArgumentParser
import Glibc
import ViglaClient

/// The credential of a command, given in the same four ways to every command: an administrator's for administration; for reading and writing data
/// also a user's token. All users of the machine can read command lines, so there are other ways to give it.
struct AdminCredential: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Secret of an administrator, for data also a user's token. Others on this machine can see it: better --auth-file, VIGLA_AUTH "
                + "or VIGLA_AUTH_FILE. A hub with --dev also takes \"owner\".",
            valueName: "secret"))
    var auth: String?
    @Option(help: ArgumentHelp("File whose first line is that; - for standard input.", valueName: "file")) var authFile: String?

    /// Nil when none was given. Ends the program when the file cannot be read.
    func read() -> String? { find()?.text }

    /// The same with its source, for messages. The command line takes precedence over the environment.
    func find() -> (text: String, source: String)? {
        switch given {
        case .text(let text, let source)?: (text, source)
        case .file(let path, let source)?: (Self.firstLine(path, source), "\(source) \(path)")
        case nil: nil
        }
    }

    private enum Given {
        case text(String, source: String)
        case file(String, source: String)
    }

    private var given: Given? {
        if let auth { return .text(auth, source: "--auth") }
        if let authFile { return .file(authFile, source: "--auth-file") }
        if let auth = Environment["VIGLA_AUTH"] { return .text(auth, source: "VIGLA_AUTH") }
        return Environment["VIGLA_AUTH_FILE"].map { .file($0, source: "VIGLA_AUTH_FILE") }
    }

    private static func firstLine(_ path: String, _ source: String) -> String {
        switch path == "-" ? WholeFile.read(0) : WholeFile.read(path) {
        case .failure(let fault):
            let isDenied = fault.code == EACCES && getuid() != 0
            let advice = "\nOnly root and the hub's user may read a hub's secret. Type first: sudo -i"
            fail("\(source): \(path): \(fault)\(isDenied ? advice : "")")
        case .success(let bytes):
            let line = String(decoding: bytes.prefix { $0 != 0x0A && $0 != 0x0D }, as: UTF8.self)
            guard !line.isEmpty else { fail("\(source): the first line of \(path) is empty") }
            return line
        }
    }

    func validate() throws {
        if auth != nil, authFile != nil { throw ValidationError("--auth and --auth-file exclude each other.") }
        // It is sent as a header field, which it must not be able to end.
        if let auth, !auth.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) { throw ValidationError("--auth: a secret or a token is one word.") }
    }
}

extension AdminCredential {
    /// The message of a command that needs an administrator and was refused: the credential tried, and what to type.
    var refused: String {
        let tried = switch given {
        case .text(_, let source)?: "This takes an administrator, and what \(source) gives is no administrator's secret of this hub."
        case .file(let path, let source)?: "This takes an administrator, and \(source) \(path) holds no administrator's secret of this hub."
        case nil:
            "This takes an administrator, and no credential was given: none of --auth-file, --auth, VIGLA_AUTH_FILE and VIGLA_AUTH is set."
        }
        return tried + "\n" + Self.whereSecretsAre
    }

    /// The message of a data command that the rules refused.
    /// - Parameter query: of a command that reads.
    func refusedByRules(_ target: Target, _ query: QueryOptions?) -> String {
        let form = query.map { query in
            query.isEmpty && target.url.parameters.isEmpty
                ? " Or they allow no read of all of it, but only a query: some children, by --limit, --where or --near."
                : " Or they allow only queries of another form: with another limit or circle, or with other conditions."
        } ?? ""
        // The command explains no query of a stored region.
        let isExplained = query?.hasStoredRegion != true
        switch given {
        case nil:
            return "The hub's rules refuse this, and no credential was given: none of --auth-file, --auth, "
                + "VIGLA_AUTH_FILE and VIGLA_AUTH is set. Give the token of a permitted user, or an administrator's secret.\(form) "
                + (isExplained ? "An administrator may ask why: vigla rules explain URL. " : "") + "A hub without rules denies everything.\n" + Self.whereSecretsAre
        case .text(_, let source)?, .file(_, let source)?:
            return "The hub's rules do not allow this to the user of \(source).\(form)"
                + (isExplained ? " An administrator may ask why: vigla rules explain URL --as UID" : "")
                + (isExplained && query?.isEmpty == false ? ", with the same options of the query" : "")
        }
    }

    /// Where to find a secret.
    static let whereSecretsAre = """
        Type --auth-file FILE. A hub's first start leaves an administrator's secret in its data folder, in \(FirstSecret.fileName); \
        'vigla secret add --data FOLDER' makes one while it is stopped. A hub with --dev takes: --auth owner
        """
}
