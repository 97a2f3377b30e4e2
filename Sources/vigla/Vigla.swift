import ArgumentParser
import Glibc

/// The command line (design: stable, scripts rely on it). Each command has a file of its own.
@main
struct Vigla: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "vigla",
        abstract: "A self-hosted realtime hub, compatible with Firebase: a JSON tree that notifies its clients of changes.",
        discussion: """
            Start a hub on this machine, open to every program on it:

              vigla serve --dev --memory

            Then, in other terminals:

              vigla watch http://127.0.0.1:9000/greeting
              vigla set   http://127.0.0.1:9000/greeting '"hello"'

            Credentials, for every command that asks a hub: --auth-file FILE, --auth SECRET, VIGLA_AUTH, VIGLA_AUTH_FILE. A hub's first \
            start leaves an administrator's secret in its data folder, in admin-secret.txt.

            Completions for a shell: vigla --generate-completion-script bash|zsh|fish

            Exit codes: 0 done, 1 failed, 64 wrong usage, 78 faults in the configuration.
            """,
        version: "vigla \(version)",
        subcommands: [
            Serve.self, Get.self, Watch.self, Set.self, Update.self, Push.self, Remove.self, Export.self, Import.self, Rules.self,
            DatabaseCommand.self, Secret.self, User.self, Token.self, Backup.self,
            OutboxCommand.self, Cluster.self, Health.self, Doctor.self,
        ])

    static let version = "0.1.0"

    static func main() {
        // libdispatch requests a priority that only root has, and logs each refusal to syslog: under systemd a line for each command.
        setenv("LIBDISPATCH_LOG", "NO", 0)
        if let text = Suggestion.unknownCommand(CommandLine.arguments.dropFirst()) { fail(text, code: 64) }
        do {
            var command = try parseAsRoot()
            try command.run()
        } catch {
            if let hint = Suggestion.hint(CommandLine.arguments.dropFirst(), fullMessage(for: error)) {
                StandardStream.error.line("\(fullMessage(for: error))\n\(hint)")
                Self.exit(withError: ExitCode(exitCode(for: error).rawValue))
            }
            exit(withError: error)
        }
    }
}
