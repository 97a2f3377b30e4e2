import Glibc

/// The settings of the hub that systemd runs. The doctor checks them on a machine with the package, when no options are given.
enum ServiceSettings {
    static let file = "/etc/vigla/vigla.env"

    enum Found {
        /// Another source names the hub, or the file does not exist.
        case none
        case environment([String: String])
        /// This user may not read the file, or the data folder that it names.
        case closed(Finding)
    }

    /// - Parameter file: the unit's EnvironmentFile.
    static func find(_ given: [ServeOption: String], _ environment: [String: String], file: String) -> Found {
        let isTold = !given.isEmpty || ServeOption.allCases.contains { environment[$0.variable]?.isEmpty == false }
        guard !isTold, access(file, F_OK) == 0 || errno != ENOENT else { return .none }
        switch WholeFile.read(file) {
        case .failure(let fault): return .closed(closed("\(file), the service's settings: \(fault)"))
        case .success(let bytes):
            let found = variables(String(decoding: bytes, as: UTF8.self))
            if let folder = found[ServeOption.data.variable], access(folder, R_OK | X_OK) != 0, errno == EACCES {
                return .closed(closed("\(file) names the data folder \(folder), which this user may not look into"))
            }
            return .environment(found)
        }
    }

    private static func closed(_ text: String) -> Finding { .wrong("options", text, "sudo vigla doctor") }

    /// Lines of systemd.exec(5), without line continuation: comments begin with # or ;, a value may be quoted.
    private static func variables(_ text: String) -> [String: String] {
        var found: [String: String] = [:]
        for line in text.split(whereSeparator: \.isNewline) {
            let line = trimmed(line)
            guard line.hasPrefix("VIGLA_"), let equals = line.firstIndex(of: "=") else { continue }
            var value = trimmed(line[line.index(after: equals)...])
            if value.count >= 2, let quote = value.first, quote == "\"" || quote == "'", value.last == quote {
                value = value.dropFirst().dropLast()
            }
            found[String(trimmed(line[..<equals]))] = String(value)
        }
        return found
    }

    private static func trimmed(_ text: Substring) -> Substring {
        let start = text.drop(while: \.isWhitespace)
        return start.lastIndex { !$0.isWhitespace }.map { start[...$0] } ?? ""
    }
}
