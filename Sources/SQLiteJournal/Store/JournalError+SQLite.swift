import GRDB
import Journal

extension JournalError {
    /// The error of a failed commit, for its writers.
    /// - Parameter isDiscarded: whether the next start certainly finds nothing of the commit, even after a power cut.
    init(_ error: any Error, storing path: String, isDiscarded: Bool = true) {
        self.init(error, storing: path)
        if isDiscarded { return }
        switch self {
        case .disk(let reason), .diskFull(let reason): self = .unknown(reason: reason)
        default: break
        }
    }

    /// The error of a failed write.
    private init(_ error: any Error, storing path: String) {
        switch error {
        case let error as JournalError: self = error
        case let error as DatabaseError:
            let reason = error.message ?? error.resultCode.description
            switch error.resultCode {
            case .SQLITE_FULL: self = .diskFull(reason: reason)
            case .SQLITE_CORRUPT, .SQLITE_NOTADB: self = .corrupt(path: path, place: reason)
            case .SQLITE_MISUSE: self = .closed
            default: self = .disk(reason: reason)
            }
        default: self = .disk(reason: String(describing: error))
        }
    }

    /// The error of a failure to open or read.
    init(_ error: any Error, opening path: String) {
        if let error = error as? DatabaseError {
            switch error.resultCode {
            case .SQLITE_NOTADB:
                self = .notAJournal(path: path)
                return
            case .SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_PERM, .SQLITE_AUTH:
                self = .cannotOpen(path: path, reason: error.message ?? error.resultCode.description)
                return
            // The statements are those of this format, so an SQL error means that the schema is damaged.
            case .SQLITE_ERROR, .SQLITE_SCHEMA:
                self = .corrupt(path: path, place: error.message ?? error.resultCode.description)
                return
            default: break
            }
        }
        self.init(error, storing: path)
    }
}
