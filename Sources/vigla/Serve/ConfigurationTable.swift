/// `vigla serve --print-config`: each option, what it is, and who says so.
enum ConfigurationTable {
    /// In words, where an option that is not given is no single value.
    private static let defaults: [ServeOption: String] = [
        .host: "127.0.0.1", .port: "9000", .data: "./data", .memory: "false", .rules: "none (everything denied)", .namespace: "default",
        .web: "./web, else ../share/vigla/web beside the program", .durability: "full", .loops: "one per core", .dev: "false",
        .logLevel: "info", .logFormat: "text", .acceptLoss: "false", .allowOrigin: "all; with --dev this machine's", .metrics: "loopback",
        .bytesByUser: "false",
        .logRefusals: "0", .logRequests: "false", .memoryBudget: "a quarter of the memory, 256 to 1024 MiB", .accounts: "docs/accounts.md",
        .project: "the namespace", .publicURL: "the address it listens on",
    ]

    static func lines(_ arguments: [ServeOption: String], _ environment: [String: String]) -> [String] {
        var layers = OptionLayers(arguments, environment: environment)
        if let file = layers.find(.config) { layers.addFile(file.text, source: file.source) }
        var rows = [["OPTION", "VALUE", "FROM"]]
        for option in ServeOption.allCases {
            if let found = layers.find(option) {
                rows.append([option.rawValue, found.text, found.source])
            } else {
                rows.append([option.rawValue, defaults[option] ?? "-", "default"])
            }
        }
        return TextTable.lines(rows)
    }
}
