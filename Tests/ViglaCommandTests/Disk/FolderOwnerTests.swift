import Foundation
import Testing
import TestSupport

/// Root's commands on the folder of a hub that runs as another user, as the package's hub does.
@Suite(.timeLimit(.minutes(30)), .enabled(if: geteuid() == 0, "needs root")) struct FolderOwnerTests {
    /// `nobody`, and its group.
    private static let (user, group): (uid_t, gid_t) = (65_534, 65_534)

    /// `state`, a folder of the hub's user that other users cannot enter.
    private func stateFolder() throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        chmod(folder.path, 0o755)
        try FileManager.default.createDirectory(atPath: folder.at("state"), withIntermediateDirectories: false)
        chown(folder.at("state"), Self.user, Self.group)
        chmod(folder.at("state"), 0o700)
        return folder
    }

    /// Files in the folder that do not belong to the hub's user alone.
    private func others(_ folder: TemporaryFolder) throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: folder.at("state")).filter { name in
            var info = stat()
            lstat(folder.at("state/" + name), &info)
            return info.st_uid != Self.user || info.st_gid != Self.group || info.st_mode & 0o077 != 0
        }
    }

    private func run(_ arguments: String..., in folder: TemporaryFolder) throws {
        let result = try Command.run(arguments, in: folder.url)
        #expect(result.code == 0, "\(arguments): \(result.error)")
        #expect(try others(folder) == [], "\(arguments)")
    }

    @Test func everyCommandOfRoot_leavesTheFolderToItsOwner() throws {
        let folder = try stateFolder()
        _ = try folder.file("in.json", #"{"a":1}"#)
        try run("secret", "add", "--data", "state/data", "--name", "first", in: folder)
        try run("import", "state/data", "in.json", in: folder)
        try run("export", "state/data", "state/out.json", in: folder)
        try run("export", "state/data", "state/out.json", in: folder)
        try run("doctor", "--port", "0", "--data", "state/data", in: folder)
        try run("backup", "--data", "state/data", "--to", "state/kept/today", in: folder)
        try run("backup", "--data", "state/data", "--to", "state/kept/today", "--replace", in: folder)
        try run("backup", "--restore", "--from", "state/kept/today", "--data", "state/data", "--replace", in: folder)
        try run("backup", "--restore", "--from", "state/kept/today", "--data", "state/new", in: folder)
        // Root runs the hub itself, with its accounts and its first secret; killed, so that its logs stay.
        let hub = try RunningHub(["--port", "0", "--data", "state/served"], folder: folder)
        #expect(try others(folder) == [])
        _ = hub.stop(SIGKILL)
        #expect(FileManager.default.fileExists(atPath: folder.at("state/served/admin-secret.txt")))
        try run("secret", "list", "--data", "state/served", in: folder)
        try run("backup", "--data", "state/served", "--to", "state/served-copy", in: folder)
        // The administrator's own folder keeps its owner.
        #expect(try Command.run("backup", "--data", "state/data", "--to", "own", in: folder.url).code == 0)
        var info = stat()
        #expect(stat(folder.at("own/vigla.sqlite"), &info) == 0 && info.st_uid == 0)
    }

    /// A link planted by the hub's user changes the owner of no file of root's.
    @Test func plantedLink_changesNoOtherFile() throws {
        let folder = try stateFolder()
        let secret = try folder.file("secret.txt", "of root")
        try run("secret", "add", "--data", "state/data", "--name", "first", in: folder)
        chmod(secret, 0o644)
        for name in ["data/vigla.mark", "out.json.part", "data/vigla.sqlite-wal", "data/vigla.sqlite-shm", "data/vigla.lock"] {
            let link = folder.at("state/" + name)
            unlink(link)
            symlink(secret, link)
            for arguments in [["export", "state/data", "state/out.json"], ["secret", "list", "--data", "state/data"]] {
                _ = try Command.run(arguments, in: folder.url)
            }
            var info = stat()
            #expect(stat(secret, &info) == 0 && info.st_uid == 0 && info.st_mode & 0o777 == 0o644, "\(name)")
            #expect(try String(contentsOfFile: secret, encoding: .utf8) == "of root", "\(name)")
            unlink(link)
        }
    }

    @Test func doctorOfRoot_findsWhatTheHubsUserCannotOpen() throws {
        let folder = try stateFolder()
        let rules = try folder.file("rules.json", #"{"rules":{"a":{".read":true}}}"#)
        try run("secret", "add", "--data", "state/data", "--name", "first", in: folder)
        func doctor() throws -> Command.Result {
            try Command.run("doctor", "--port", "0", "--data", folder.at("state/data"), "--rules", rules, in: folder.url)
        }
        let well = try doctor()
        #expect(well.code == 0 && well.output.contains("ok     user     files are checked as the hub's user nobody opens them"), "\(well)")

        chown(folder.at("state/data/vigla.sqlite"), 0, 0)
        let closed = try doctor()
        #expect(closed.code == 1 && closed.output.contains("nobody cannot read and write vigla.sqlite in "), "\(closed.output)")
        #expect(closed.output.contains("chown -R nobody: \(folder.at("state/data"))"))
        chown(folder.at("state/data/vigla.sqlite"), Self.user, Self.group)

        chmod(rules, 0o600)
        let unread = try doctor()
        #expect(unread.code == 1 && unread.output.contains("WRONG  options  --rules: \(rules): permission denied"), "\(unread.output)")
        chmod(rules, 0o644)

        // A folder that root has restored within the service's.
        let settings = try folder.file("vigla.env", "VIGLA_DATA=\(folder.at("state/data"))\nVIGLA_PORT=0\nVIGLA_RULES=\(rules)\n")
        chown(folder.at("state/data"), 0, 0)
        let service = try Command.run("doctor", "--service-settings", settings, in: folder.url)
        #expect(service.code == 1 && service.output.contains("may not be written by this user"), "\(service.output)")
    }

    /// The service manager does not restart such a hub again and again.
    @Test func hub_thatCannotOpenItsFiles_endsWithTheCodeOfAFaultyConfiguration() throws {
        let folder = try stateFolder()
        try run("secret", "add", "--data", "state/data", "--name", "first", in: folder)
        chown(folder.at("state/data/vigla.lock"), 0, 0)
        // Copied to where the user may execute it.
        try FileManager.default.copyItem(atPath: Command.folder.appendingPathComponent("vigla").path, toPath: folder.at("vigla"))
        func serve() throws -> Command.Result {
            try Command.run(
                "--reuid", "nobody", "--clear-groups", folder.at("vigla"), "serve", "--port", "0", "--data", folder.at("state/data"),
                environment: ["LD_LIBRARY_PATH": ProcessInfo.processInfo.environment["LD_LIBRARY_PATH"] ?? ""], in: folder.url,
                program: "/usr/bin/setpriv")
        }
        let result = try serve()
        #expect(result.code == 78 && result.error.contains("nobody cannot read and write vigla.lock"), "\(result.code) \(result.error)")
        // So do the accounts of one database.
        chown(folder.at("state/data/vigla.lock"), Self.user, Self.group)
        chmod(try folder.file("state/data/accounts-next.sqlite", ""), 0o600)
        let accounts = try serve()
        #expect(accounts.code == 78 && accounts.error.contains("write accounts-next.sqlite in"), "\(accounts.code) \(accounts.error)")
    }
}
