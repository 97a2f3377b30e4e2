/// Idle connections: the server's memory for each.
struct IdleLoad {
    /// A server that a connection is measured on.
    struct Subject {
        let name: String
        let target: String
        let start: () throws -> ServerProcess
    }

    let connections: Int
    /// Ports of one address.
    static let range = 100...27_000

    /// The hub's realtime sessions, and upgraded connections of a bare loop.
    static func subjects(_ vigla: String?) -> [Subject] {
        [
            Subject(name: "vigla", target: "/.ws?v=5&ns=default") {
                try ServerProcess(vigla ?? besideThisProgram("vigla"), ["serve", "--memory", "--dev", "--port", "0"], isQuiet: true)
            },
            Subject(name: "loop", target: "/echo") { try ServerProcess(["serve-echo", "--loops", "2"]) },
        ]
    }

    /// The server's growth per connection in KB.
    func kilobytes(_ server: ServerProcess, _ target: String) throws -> Double {
        // Allocations that the server makes only once must happen before the count.
        try open(50, server, target) {}
        let before = server.residentBytes
        var after = 0
        try open(connections, server, target) { after = server.residentBytes }
        return Double(after - before) / 1024 / Double(connections)
    }

    private func open(_ count: Int, _ server: ServerProcess, _ target: String, _ body: () -> Void) throws {
        let swarm = try Swarm(port: server.port)
        for opened in 1...count {
            _ = try swarm.connect(target)
            if opened % 500 == 0 { try swarm.finishUpgrades() }
        }
        try swarm.finishUpgrades()
        while try swarm.frames(withinMs: 300, { _, _, _ in }) {}
        body()
    }
}
