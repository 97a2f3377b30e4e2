import GRDB

/// Why the account store cannot be used; the text says what to do.
public enum AccountStoreFault: Error, CustomStringConvertible {
    /// The file cannot be read or written.
    case cannotOpen(path: String, String)
    /// It is some other file.
    case notAStore(path: String)
    /// A later version of the program has changed it.
    case newerFormat(path: String)
    /// SQLite, or what is to be made of a row, says so.
    case damaged(path: String, String)
    /// The hub has stopped.
    case closed

    public var description: String {
        switch self {
        case .cannotOpen(let path, let reason):
            "Cannot use \(path): \(reason). Check that the folder exists, belongs to this user and is writable."
        case .notAStore(let path): "\(path) is not a Vigla data file. Choose another folder with --data, or move that file away."
        case .newerFormat(let path): "\(path) was changed by a newer version. Use the version that wrote it, or a newer one."
        case .damaged(let path, let place):
            "\(path) is damaged (\(place)) and nothing was changed. Keep a copy of the folder, then restore a backup "
                + "(vigla backup --restore), or start with another folder (--data)."
        case .closed: "The accounts are closed: the hub is stopping."
        }
    }

    /// Does what opening the store takes.
    /// - Throws: an `AccountStoreFault`, whatever went wrong.
    static func around<Result>(_ folder: String?, _ work: () throws -> Result) throws -> Result {
        let path = folder.map { $0 + "/" + AccountStore.fileName } ?? "memory"
        do { return try work() } catch let fault as AccountStoreFault { throw fault } catch let error as DatabaseError {
            switch error.resultCode {
            case .SQLITE_NOTADB: throw notAStore(path: path)
            // A schema that says something else than what was written is damage as well.
            case .SQLITE_CORRUPT, .SQLITE_ERROR, .SQLITE_CONSTRAINT, .SQLITE_FORMAT, .SQLITE_MISMATCH:
                throw damaged(path: path, error.message ?? "\(error.resultCode)")
            default: throw cannotOpen(path: path, error.message ?? "\(error.resultCode)")
            }
        } catch { throw damaged(path: path, "what it holds cannot be read") }
    }
}
