import Accounts
import ArgumentParser
import Journal
import SQLiteJournal

/// `vigla backup --data DIR --to DIR` and `vigla backup --restore --from DIR --data DIR`
struct Backup: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Copy a hub's data to another folder, or back.",
        discussion: """
            The hub may go on serving: the copy is how everything was at one moment, accounts included. It is read back and compared with \
            its \
            checksums before it counts.

              vigla backup --data ./data --to ./backup
              vigla backup --restore --from ./backup --data ./data

            To restore, stop the hub first. Data that is already there is replaced only with --replace, and only when the copy \
            is complete.
            """)

    @Option(help: ArgumentHelp("The hub's data folder. Default: VIGLA_DATA, else ./data.", valueName: "folder")) var data: String?
    @Option(help: "Where the backup goes.") var to: String?
    @Flag(help: "Copy a backup to the data folder.") var restore = false
    @Option(help: "The backup to restore.") var from: String?
    @Flag(help: "Replace data that is already there.") var replace = false
    @Flag(help: ArgumentHelp(
        "Continue with the sound part when acknowledged writes cannot be read from the log of a hub that does not run; a copy of the log "
            + "is kept."))
    var acceptLoss = false

    func validate() throws {
        if restore {
            guard from != nil, to == nil else {
                throw ValidationError("--restore takes the backup with --from and the data folder with --data")
            }
        } else {
            guard to != nil, from == nil else {
                throw ValidationError("give the folder for the backup with --to (or --restore with --from)")
            }
        }
    }

    /// The files of accounts of both folders: of the hub, and of databases with their own.
    private func accountFiles(_ folders: String...) -> [String] {
        Swift.Set(folders.flatMap(AccountStore.fileNames) + [AccountStore.fileName]).sorted()
    }

    func run() {
        let folder = data ?? Environment["VIGLA_DATA"] ?? "./data"
        let (source, target) = restore ? (from ?? "", folder) : (folder, to ?? "")
        var progress = ProgressLine("copied")
        do throws(JournalError) {
            let summary = try FolderCopy.make(
                from: source, to: target, replacing: replace, companions: accountFiles(source, target), acceptingLoss: acceptLoss
            ) { progress.show($0.copiedBytes >> 20, of: $0.totalBytes >> 20, unit: "MiB") }
            progress.end()
            if let finding = summary.finding { StandardStream.error.line("vigla: \(finding)") }
            let commits = summary.commits.sorted { $0.key < $1.key }.map { "\($0.key) up to commit \($0.value)" }.joined(separator: ", ")
            let what = commits.isEmpty ? "" : ": " + commits
            StandardStream.output.line("\(source) is copied to \(target) (\(TransferSummary.megabytes(summary.bytes)) MB\(what))")
            if restore {
                StandardStream.output.line(
                    "The administrators' secrets are those of the backup. Without any of them: vigla secret add --data \(target)")
            }
        } catch {
            progress.end()
            fail("\(error)")
        }
    }
}
