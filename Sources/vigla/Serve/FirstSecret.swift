import Dispatch
import Glibc
import HubServer
import Journal
import Scheduling

/// The first administrator's secret. A hub that starts on a folder without any secret so far creates one, in a file that only its own user
/// can read. So rules can be deployed and accounts created without stopping the hub again.
enum FirstSecret {
    /// In the data folder; its first line is the secret. The hub does not read it: it may be moved or removed.
    static let fileName = "admin-secret.txt"

    /// Creates a secret if the folder never had one, not even a revoked one. Blocks.
    /// - Returns: the file's path, nil when none was needed; or why it could not be created.
    static func make(_ secrets: Secrets, in folder: String) -> Result<String?, Fault> {
        guard secrets.isNew, secrets.all.isEmpty else { return .success(nil) }
        let secret = Secrets.random()
        let path = folder + "/" + fileName
        // The file comes first: if its secret does not become valid, the next start writes it again.
        if let fault = write(secret, path) { return .failure(Fault(text: "\(path): \(fault)")) }
        let isMade = DispatchSemaphore(value: 0)
        let outcome = Outcome()
        secrets.add("first", madeAt: SystemTime.wallMs, secret: secret) { result in
            if case .failure(let fault) = result { outcome.text = "\(fault)" }
            isMade.signal()
        }
        isMade.wait()
        guard let text = outcome.text else { return .success(path) }
        unlink(path)
        return .failure(Fault(text: text))
    }

    struct Fault: Error { let text: String }

    private final class Outcome: @unchecked Sendable {
        // because it is written before the semaphore's signal and read after it.
        var text: String?
    }

    /// - Returns: nil when the file is on disk under its name, else the system's error.
    private static func write(_ secret: String, _ path: String) -> FileFault? {
        let partial = path + ".part"
        unlink(partial)
        let file = PrivateFile.open(partial, O_WRONLY | O_EXCL)
        guard file >= 0 else { return FileFault(errno) }
        let bytes = Array((secret + "\n").utf8)
        let isWritten = Glibc.write(file, bytes, bytes.count) == bytes.count && fsync(file) == 0
        let code = errno
        close(file)
        if isWritten, rename(partial, path) == 0 {
            // Sync the name, too: the secret is valid from then on, and is nowhere else.
            let folder = open(String(path.prefix(path.count - fileName.count)), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            guard folder >= 0 else { return FileFault(errno) }
            defer { close(folder) }
            return fsync(folder) == 0 ? nil : FileFault(errno)
        }
        let fault = FileFault(isWritten ? errno : code)
        unlink(partial)
        return fault
    }
}
