import HubServer
import Journal
import SecurityRules
import SQLiteJournal

/// Which rules are in force, those of the file or deployed ones, and their probable mistakes.
enum RulesCheck {
    /// - Parameter isFileFaulty: a rules file cannot be used, which is already reported.
    static func findings(_ settings: ServerSettings, isFileFaulty: Bool) -> [Finding] {
        let (deployed, faults) = deployed(settings)
        func isDeployed(_ database: DatabaseSettings) -> Bool { deployed.contains { $0.namespace == database.name } }
        var findings = faults
        for (file, rules) in isFileFaulty ? [] : settings.rulesFiles {
            let isInForce = settings.databases.contains { $0.rulesFile == file && !isDeployed($0) }
            findings.append(self.file(file, rules, isInForce: isInForce))
        }
        for rules in deployed {
            let database = settings.databases.first { $0.name == rules.namespace }
            let text = database.flatMap { $0.rulesFile == nil ? nil : $0.rules.text }
            findings.append(finding(rules, holds: isFileFaulty ? nil : rules.hold(over: text), database?.rulesFile))
        }
        let without = settings.databases.filter { $0.rulesFile == nil && !isDeployed($0) }
        guard !without.isEmpty, faults.isEmpty else { return findings }
        if settings.isDev { return findings + [.warning("rules", "none, and --dev: every program on this machine may do everything")] }
        let place = settings.databases.count == 1 ? "" : " of \(without.map(\.name).joined(separator: ", "))"
        return findings + [.warning(
            "rules", "no file\(place), and none are deployed: everything is denied",
            "--rules FILE, or at the running hub: vigla rules deploy URL FILE --auth-file DATA/\(FirstSecret.fileName)")]
    }

    private static func file(_ file: String, _ rules: RuleSet, isInForce: Bool) -> Finding {
        let what = "\(file): \(count(rules))" + (isInForce && rules.rules.isEmpty ? ", so everything is denied" : "")
        let warnings = rules.warnings.count
        guard warnings > 0 else { return .good("rules", what) }
        return .warning("rules", "\(what), \(warnings) \(warnings == 1 ? "warning" : "warnings")", "vigla rules check \(file)")
    }

    private static func count(_ rules: RuleSet) -> String {
        switch rules.rules.count {
        case 0: "no rules"
        case 1: "1 rule"
        case let many: "\(many) rules"
        }
    }

    /// - Parameter holds: whether the deployed rules are in force; nil if unknown because the file is faulty.
    private static func finding(_ deployed: DeployedRules, holds: Bool?, _ file: String?) -> Finding {
        let whose = "namespace \(deployed.namespace)"
        guard let rules = try? RuleSet(inForce: deployed.source) else {
            return .wrong("rules", "those deployed to \(whose) are faulty: everything is denied", "vigla rules deploy URL FILE")
        }
        let what = "deployed to \(whose): \(count(rules))"
        if let key = rules.unsupported.first {
            return .warning(
                "rules", "\(what), with a key that has no effect: \(key)",
                "vigla rules get URL > rules.json; take it out; vigla rules deploy URL rules.json")
        }
        guard let holds else { return .good("rules", what) }
        guard holds else {
            let file = file ?? "its file"
            return .good("rules", "\(what), until the hub reads \(file) (at its next start, or SIGHUP), which has changed since")
        }
        let place = file.map { ", in place of \($0) until that is changed" } ?? ""
        let warnings = rules.warnings.count
        guard warnings > 0 else { return .good("rules", what + place) }
        return .warning(
            "rules", "\(what)\(place), \(warnings) \(warnings == 1 ? "warning" : "warnings")",
            "vigla rules get URL > rules.json; vigla rules check rules.json")
    }

    /// The deployed rules in the data folder, by namespace; none in memory, or in a folder without data.
    private static func deployed(_ settings: ServerSettings) -> (rules: [DeployedRules], faults: [Finding]) {
        guard let folder = settings.dataFolder, DataFolder.holdsData(folder) else { return ([], []) }
        let kept: [String: [String: [UInt8]]]
        do throws(JournalError) { kept = try JournalStore.settings(in: folder) } catch {
            let advice = Checks.unusableFolder(folder) == nil ? "run the doctor as the hub's user: sudo vigla doctor" : nil
            return ([], [.warning("rules", "whether rules are deployed cannot be read: \(error)", advice)])
        }
        var (rules, faults): ([DeployedRules], [Finding]) = ([], [])
        for (namespace, settings) in kept.sorted(by: { $0.key < $1.key }) {
            do throws(DeployedRules.Unreadable) {
                if let found = try DeployedRules(settings, of: namespace) { rules.append(found) }
            } catch {
                faults.append(.wrong(
                    "rules", "those deployed to namespace \(namespace) cannot be read: everything is denied",
                    "vigla rules deploy URL FILE"))
            }
        }
        return (rules, faults)
    }
}
