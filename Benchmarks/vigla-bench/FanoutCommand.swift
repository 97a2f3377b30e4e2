import ArgumentParser
import Glibc

/// One write to many observers: a bare C broadcast server, and the hub (or only its transport).
struct Fanout: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Server CPU per delivered message, against bare C.")

    enum Server: String, ExpressibleByArgument, CaseIterable {
        /// A `vigla serve` process, over realtime protocol v5.
        case vigla
        /// A broadcast server on DispatchNet alone.
        case dispatchnet
    }

    enum Baseline: String, ExpressibleByArgument, CaseIterable {
        /// One `send` per delivery.
        case fanout
        /// One `send` per observer and batch of events.
        case corked
    }

    @Option(help: "The subject: vigla or dispatchnet.") var server = Server.vigla
    @Option(help: "The C server: fanout (a send per delivery) or corked.") var baseline = Baseline.fanout
    @Option(help: "Numbers of observers, separated by commas.") var observers = "1000"
    @Option(help: "Messages per run, after a warm-up; 0 chooses about 400,000 deliveries, in bursts 1,000,000.")
    var messages = 0
    @Option(help: "Messages published together; 1 waits for each.") var burst = 1
    @Option(help: "Bytes of the value written.") var size = 64
    @Option(help: "Runs of each server.") var runs = 3
    @Option(help: "Loops of the subject; 0 leaves it to the server. The baseline has one.") var loops = 0
    @Flag(help: "Over TLS, on both sides; the C server calls SSL_write where it would call send.") var tls = false
    @Option(help: "The vigla program; without it the one beside vigla-bench.") var vigla: String?

    func validate() throws {
        guard (10...16_000).contains(size) else { throw ValidationError("--size is 10 to 16000") }
        guard (1...1000).contains(burst), burst * (size + 100) <= 128 << 10 else {
            throw ValidationError("--burst × --size must stay under 128 KiB")
        }
        guard runs > 0, messages >= 0, loops >= 0 else { throw ValidationError("numbers must not be below 0") }
        guard counts.allSatisfy({ $0 > 0 }), !counts.isEmpty else { throw ValidationError("--observers: numbers") }
    }

    private var counts: [Int] { observers.split(separator: ",").map { Int($0) ?? 0 } }

    func run() throws {
        raiseDescriptorLimit()
        let certificate = tls ? try BenchCertificate() : nil
        for count in counts { try compare(observers: count, certificate) }
    }

    private func compare(observers: Int, _ certificate: BenchCertificate?) throws {
        let chosen = messages > 0 ? messages : max(burst, (burst > 1 ? 1_000_000 : 400_000) / observers)
        func load(_ speech: FanoutLoad.Speech, textBytes: Int) -> FanoutLoad {
            FanoutLoad(
                observers: observers, messages: chosen, burst: burst, textBytes: textBytes, speech: speech, trusting: certificate?.file)
        }
        // The baseline's frames have the length of the hub's pushes, which a short run measures.
        var pushBytes = size
        if server == .vigla {
            let probe = FanoutLoad(observers: 1, messages: 1, burst: 1, textBytes: size, speech: .realtime, trusting: certificate?.file)
            pushBytes = try probe.run(against: startSubject(certificate)).payloadBytes
        }
        let rhythm = burst == 1 ? "one at a time" : "bursts of \(burst)"
        let comparison = Comparison(
            title: "fanout\(tls ? " over TLS" : ""), \(observers) observers, \(chosen) messages, \(rhythm), payload \(pushBytes) bytes",
            baselineName: baseline == .fanout ? "c" : "c corked", subjectName: server.rawValue, runs: runs)
        try comparison.measure {
            try load(.plain, textBytes: pushBytes)
                .run(against: ServerProcess(["serve-baseline", baseline.rawValue] + options(certificate)))
        } subject: {
            try load(server == .vigla ? .realtime : .plain, textBytes: size).run(against: startSubject(certificate))
        }
    }

    private func options(_ certificate: BenchCertificate?) -> [String] {
        certificate.map { ["--tls-cert", $0.file, "--tls-key", $0.keyFile] } ?? []
    }

    private func startSubject(_ certificate: BenchCertificate?) throws -> ServerProcess {
        switch server {
        case .dispatchnet: return try ServerProcess(["serve-fanout", "--loops", "\(max(1, loops))"] + options(certificate))
        case .vigla:
            let options = [
                "serve", "--memory", "--dev", "--port", "0",
            ] + (loops > 0 ? ["--loops", "\(loops)"] : []) + self.options(certificate)
            return try ServerProcess(vigla ?? besideThisProgram("vigla"), options)
        }
    }
}

func besideThisProgram(_ name: String) -> String {
    var path = [UInt8](repeating: 0, count: Int(PATH_MAX))
    let count = path.withUnsafeMutableBytes { bytes in
        guard let start = bytes.baseAddress else { return 0 }
        return readlink("/proc/self/exe", start.assumingMemoryBound(to: CChar.self), bytes.count)
    }
    let own = String(decoding: path.prefix(max(0, count)), as: UTF8.self)
    let folder = own.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/")
    return "\(folder)/\(name)"
}

/// Raises the descriptor limit, as thousands of connections need more than the default; children inherit it.
func raiseDescriptorLimit() {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
}
