import Accounts
import DispatchNet
import Glibc
import Mail
import SQLiteJournal

/// Checks of values before they are used.
enum Checks {
    static func flag(_ text: String) -> Bool? {
        switch text.lowercased() {
        case "true", "1", "yes", "on": true
        case "false", "0", "no", "off": false
        default: nil
        }
    }

    /// Origins separated by commas (RFC 6454 §7), or `*`.
    static func origins(_ text: String) -> [String]? {
        let origins = text.split(separator: ",").map { String($0.drop { $0 == " " }) }
        let areGood = origins.allSatisfy { origin in
            if origin == "*" || origin == "null" { return true }
            guard let marks = origin.firstRange(of: "://"), marks.lowerBound > origin.startIndex else { return false }
            return !origin[marks.upperBound...].isEmpty && !origin[marks.upperBound...].contains { "/?# ".contains($0) }
        }
        return areGood && !origins.isEmpty ? origins : nil
    }

    /// `https://host[:port]`, with nothing behind it except a slash.
    static func publicURL(_ text: String) -> String? {
        guard let scheme = ["https://", "http://"].first(where: text.hasPrefix) else { return nil }
        let url = text.hasSuffix("/") ? String(text.dropLast()) : text
        let authority = url.dropFirst(scheme.utf8.count)
        return authority.isEmpty || authority.contains { "/?#@ ".contains($0) } ? nil : url
    }

    /// `app@example.org`, or `App <app@example.org>`.
    static func sender(_ text: String) -> MailSender? {
        guard let open = text.lastIndex(of: "<"), text.hasSuffix(">") else { return MailAddress(text).map { MailSender($0, name: "") } }
        let name = text[..<open].split(separator: " ").joined(separator: " ")
        return MailAddress(String(text[text.index(after: open)...].dropLast())).map { MailSender($0, name: name) }
    }

    /// Whether listening there is only reachable from this machine. Among names that is certain only for `localhost` and names below it.
    static func isLoopback(_ host: String) -> Bool {
        if SocketAddress.isLocalhost(host) { return true }
        var four = in_addr()
        if inet_pton(AF_INET, host, &four) == 1 { return UInt32(bigEndian: four.s_addr) >> 24 == 127 }
        var six = in6_addr()
        guard inet_pton(AF_INET6, host, &six) == 1 else { return false }
        return withUnsafeBytes(of: &six) { bytes in bytes.dropLast().allSatisfy { $0 == 0 } && bytes.last == 1 }
    }

    static func isFile(_ path: String) -> Bool {
        var info = stat()
        return stat(path, &info) == 0 && info.st_mode & S_IFMT == S_IFREG
    }

    static func isFolder(_ path: String) -> Bool {
        var info = stat()
        return stat(path, &info) == 0 && info.st_mode & S_IFMT == S_IFDIR
    }

    /// Why data cannot be kept in an existing or new folder, or why it belongs to another user; nil when it can be used.
    static func unusableFolder(_ path: String) -> String? {
        if path.isEmpty { return "an empty name is no folder" }
        var nearest = path
        while access(nearest, F_OK) != 0 {
            let parent = nearest.lastIndex(of: "/").map { String(nearest[..<$0]) }
            guard let parent, parent != nearest else { nearest = path.hasPrefix("/") ? "/" : "."; break }
            nearest = parent.isEmpty ? "/" : parent
        }
        guard isFolder(nearest) else { return "\(nearest) is not a folder" }
        if access(nearest, W_OK | X_OK) == 0 { return closedFiles(path) }
        return errno == EROFS
            ? "\(nearest) is on a file system that is mounted read-only: mount it for writing, or choose another folder"
            : "\(nearest) may not be written by this user: give it to the user (chown, chmod), or choose another folder"
    }

    /// Files of a data folder that this user cannot both read and write, such as those that another user has restored; nil for none.
    private static func closedFiles(_ folder: String) -> String? {
        let accounts = AccountStore.fileNames(in: folder).flatMap { name in ["", "-wal", "-shm"].map { name + $0 } }
        let names = JournalStore.fileNames + accounts
        let closed = names.filter { name in
            let path = folder + "/" + name
            return access(path, F_OK) == 0 && access(path, R_OK | W_OK) != 0
        }
        guard !closed.isEmpty else { return nil }
        let user = HubUser.name(of: getuid())
        return "\(user) cannot read and write \(closed.joined(separator: ", ")) in \(folder): chown -R \(user): \(folder)"
    }

    /// `web/` of the source tree, else the files installed with the program, else nil.
    static func defaultWebFolder() -> String? {
        var candidates = ["web"]
        if let program = try? readLink("/proc/self/exe"), let slash = program.lastIndex(of: "/") {
            candidates.append(program[..<slash] + "/../share/vigla/web")
        }
        return candidates.first { isFile($0 + "/index.html") }
    }

    private static func readLink(_ path: String) throws(FileFault) -> String {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(path, &buffer, buffer.count)
        guard count > 0 else { throw FileFault(errno) }
        return String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
