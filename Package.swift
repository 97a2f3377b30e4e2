// swift-tools-version: 6.2
import Foundation
import PackageDescription

/// Settings shared by every Swift target: Swift 6 mode, explicit `any`, and explicit imports of what a file uses. `HubEngine` exports `Commits`
/// and `Observing`, which its users need with it.
/// `VIGLA_STRICT=1` (set by CI) turns warnings into errors.
var shared: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
]
if Context.environment["VIGLA_STRICT"] == "1" { shared.append(.treatAllWarnings(as: .error)) }

/// For targets on the path of every message: exclusivity is checked in debug builds, in which the tests run, and not for
/// every access in release builds (measured: 15 % of a corked delivery).
let hotPath: [SwiftSetting] = [
    .unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))
]

/// `VIGLA_LOCALE_TABLE=icudt76_dat` (set by Scripts/build-static): the program gets an empty table of that name instead of ICU's data.
let localeTable = Context.environment["VIGLA_LOCALE_TABLE"]

/// Whether hubs can form a cluster over NATS JetStream (docs/cluster.md): if libnats is installed and the build requests it, as the
/// Makefile does for programs to run on this machine. SwiftPM caches a manifest's result, so libnats alone cannot decide. Without
/// it everything except the cluster is built.
let hasNats = Context.environment["VIGLA_WITH_CLUSTER"] == "1"
    && ["/usr/include", "/usr/local/include"].contains { FileManager.default.fileExists(atPath: $0 + "/nats/nats.h") }
/// For targets with code for the cluster only.
let cluster: [SwiftSetting] = hasNats ? [.define("VIGLA_CLUSTER")] : []

let package = Package(
    name: "vigla",
    products: [
        // programs are products by themselves
        .library(name: "ViglaClient", targets: ["ViglaClient"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser.git", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-collections.git", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-configuration.git", from: "1.4.0"),
        .package(url: "https://github.com/groue/GRDB.swift.git", from: "7.10.0"),
        .package(url: "https://github.com/apple/swift-http-types.git", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log.git", from: "1.16.2"),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift.git", from: "0.2.0"),
    ],
    targets: [
        // the parts of OpenSSL that DispatchNet (TLS) and Cryptography (libcrypto) need; Swift code does not import OpenSSL itself
        .target(name: "COpenSSL", linkerSettings: [.linkedLibrary("ssl"), .linkedLibrary("crypto")]),
        // hashes, keys from passwords, random bytes, signatures, key formats: all of it over libcrypto, in this target only
        .target(name: "Cryptography", dependencies: ["COpenSSL"], swiftSettings: shared + hotPath),
        .testTarget(name: "CryptographyTests", dependencies: ["Cryptography"], swiftSettings: shared),

        // values, keys, paths, order, the persistent tree, JSON bytes ⇄ nodes
        .target(name: "JSONTree", dependencies: ["Cryptography"], swiftSettings: shared + hotPath),
        .testTarget(name: "JSONTreeTests", dependencies: ["CMalloc", "JSONTree", "TestSupport"], swiftSettings: shared),
        // everything that runs by time, and the clocks
        .target(name: "Scheduling", dependencies: [
            .product(name: "HeapModule", package: "swift-collections"),
        ], swiftSettings: shared + hotPath),
        .testTarget(name: "SchedulingTests", dependencies: ["Scheduling", "TestSupport"], swiftSettings: shared),
        // the allocator's figures, which Glibc's module leaves out
        .target(name: "CMalloc", path: "Tests/CMalloc"),
        // descriptors that a child process should not inherit, which Glibc's module leaves out, too
        .target(name: "CSpawn", path: "Tests/CSpawn"),
        // shared test code that the product does not use: seeded numbers, a clock, sockets, processes
        .target(
            name: "TestSupport", dependencies: ["CSpawn", "Scheduling", .product(name: "Logging", package: "swift-log")],
            path: "Tests/TestSupport", swiftSettings: shared),
        // the system's zlib
        .systemLibrary(name: "CZlib", providers: [.apt(["zlib1g-dev"])]),
        // HTTP/1.1, WebSocket frames, permessage-deflate, realtime v5, observe: state machines over bytes
        .target(name: "WireProtocols", dependencies: [
            "CZlib", "Cryptography", "JSONTree", "LiveQueries",
            .product(name: "HTTPTypes", package: "swift-http-types"),
        ], swiftSettings: shared + hotPath),
        .testTarget(name: "WireProtocolsTests", dependencies: ["CZlib", "LiveQueries", "TestSupport", "WireProtocols"], exclude: ["Corpora"], swiftSettings: shared),
        // security rules: parse → check → compile → evaluate, with trace
        .target(name: "SecurityRules", dependencies: ["JSONTree", "LiveQueries"], swiftSettings: shared + hotPath),
        .testTarget(name: "SecurityRulesTests", dependencies: ["JSONTree", "LiveQueries", "SecurityRules", "TestSupport"], exclude: ["Corpora"], swiftSettings: shared),
        // live queries: filters, nearness, and which queries a change of one child affects
        .target(name: "LiveQueries", dependencies: ["JSONTree"], swiftSettings: shared + hotPath),
        .testTarget(name: "LiveQueriesTests", dependencies: ["JSONTree", "LiveQueries", "TestSupport"], swiftSettings: shared),
        // the journal of commits: batches, their stored form, results, followers, storage of namespaces; an implementation in memory
        .target(name: "Journal", dependencies: [
            "CZlib", "JSONTree", .product(name: "DequeModule", package: "swift-collections"),
        ], swiftSettings: shared + hotPath),
        // the journal on disk: durable log, snapshots, recovery, backup
        .target(name: "SQLiteJournal", dependencies: [
            "Journal", "JSONTree", "Scheduling",
            .product(name: "DequeModule", package: "swift-collections"),
            .product(name: "GRDB", package: "GRDB.swift"), .product(name: "GRDBSQLite", package: "GRDB.swift"),
        ], swiftSettings: shared + hotPath),
        .testTarget(name: "JournalTests", dependencies: [
            "Journal", "JSONTree", "Scheduling", "SQLiteJournal", "TestSupport", .product(name: "GRDB", package: "GRDB.swift"),
        ], swiftSettings: shared + cluster),
        // requests, answers and observer styles; the stages of a commit, and what it changed; knows no queue
        .target(name: "Commits", dependencies: [
            "Journal", "JSONTree", "LiveQueries", "Scheduling", "SecurityRules", .product(name: "DequeModule", package: "swift-collections"),
        ], swiftSettings: shared + hotPath),
        .testTarget(name: "CommitsTests", dependencies: ["Commits", "JSONTree", "SecurityRules", "TestSupport"], swiftSettings: shared),
        // clients with their rates and charges, the trie of what they observe, and the events of a change; knows no queue
        .target(name: "Observing", dependencies: [
            "Commits", "Journal", "JSONTree", "LiveQueries", "Scheduling", "SecurityRules",
            .product(name: "DequeModule", package: "swift-collections"),
        ], swiftSettings: shared + hotPath),
        .testTarget(name: "ObservingTests", dependencies: [
            "Commits", "JSONTree", "LiveQueries", "Observing", "Scheduling", "SecurityRules", "TestSupport",
        ], swiftSettings: shared),
        // one database: its queue, and everything that happens there
        .target(name: "HubEngine", dependencies: [
            "Commits", "Journal", "JSONTree", "LiveQueries", "Observing", "Scheduling", "SecurityRules",
            .product(name: "DequeModule", package: "swift-collections"), .product(name: "HeapModule", package: "swift-collections"),
        ], swiftSettings: shared + hotPath),
        .testTarget(name: "HubEngineTests", dependencies: [
            "HubEngine", "Journal", "JSONTree", "LiveQueries", "Scheduling", "SecurityRules", "SQLiteJournal", "TestSupport",
        ], swiftSettings: shared),

        // epoll, timerfd, accept4, which Glibc's module leaves out
        .target(name: "CLinux"),
        // loops, listeners, connections, TLS, timers
        .target(name: "DispatchNet", dependencies: [
            "CLinux", "COpenSSL", "Scheduling",
            .product(name: "DequeModule", package: "swift-collections"), .product(name: "HeapModule", package: "swift-collections"),
        ], swiftSettings: shared + hotPath),
        .testTarget(name: "DispatchNetTests", dependencies: ["CLinux", "DispatchNet", "Scheduling", "TestCertificates", "TestSupport"], swiftSettings: shared),
        // certificates created by tests
        .target(name: "TestCertificates", dependencies: ["TestSupport"], path: "Tests/TestCertificates", swiftSettings: shared),
        // a WebSocket echo server on DispatchNet and WireProtocols alone, for the Autobahn test suite
        .executableTarget(
            name: "echo-server", dependencies: ["DispatchNet", "WireProtocols"], path: "Tests/Autobahn", exclude: ["run", "summary.py"],
            swiftSettings: shared),

        // the system's libcurl, which speaks SMTP, fetches the keys of identity providers, and sends the command line's requests
        .systemLibrary(name: "CCurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        // one transfer with it
        .target(name: "Curl", dependencies: ["CCurl"], swiftSettings: shared),
        // limits per client: log lines
        .target(name: "Limits", dependencies: ["Scheduling", .product(name: "Logging", package: "swift-log")], swiftSettings: shared),
        // messages to users: templates, encoding, SMTP, retries
        .target(name: "Mail", dependencies: [
            "CCurl", "Curl", "JSONTree", "Limits", "Scheduling", .product(name: "Logging", package: "swift-log"),
        ], swiftSettings: shared),
        // deliveries to phones, inboxes and other programs: requests, outcomes, and the sender
        .target(name: "Outbound", dependencies: [
            "CCurl", "Cryptography", "Curl", "JSONTree", "Mail", "Scheduling",
            .product(name: "DequeModule", package: "swift-collections"),
        ], swiftSettings: shared),
        .testTarget(name: "OutboundTests", dependencies: [
            "CCurl", "Cryptography", "Curl", "DispatchNet", "JSONTree", "Mail", "Outbound", "Scheduling", "TestCertificates", "TestEndpoint",
            "TestSupport",
        ], swiftSettings: shared),
        // a local HTTP endpoint that answers as a test says
        .target(name: "TestEndpoint", dependencies: ["DispatchNet"], path: "Tests/TestEndpoint", swiftSettings: shared),
        // what the data path needs of identity: verify, sign, keys, claims
        .target(name: "Tokens", dependencies: [
            "Cryptography", "JSONTree",
            .product(name: "Logging", package: "swift-log"),
        ], swiftSettings: shared),
        // users, sessions, identity REST, OAuth 2
        .target(name: "Accounts", dependencies: [
            "CCurl", "Cryptography", "Curl", "DispatchNet", "Journal", "JSONTree", "Limits", "Mail", "Scheduling", "Tokens", "WireProtocols",
            .product(name: "GRDB", package: "GRDB.swift"),
            .product(name: "HTTPTypes", package: "swift-http-types"),
            .product(name: "Logging", package: "swift-log"),
        ], swiftSettings: shared),
        .testTarget(name: "AccountsTests", dependencies: [
            "Accounts", "Cryptography", "DispatchNet", "Journal", "JSONTree", "Limits", "Mail", "Scheduling", "TestCertificates", "TestSupport",
            "Tokens", "WireProtocols",
            .product(name: "HTTPTypes", package: "swift-http-types"),
            .product(name: "Logging", package: "swift-log"),
        ], swiftSettings: shared),

        // sessions, endpoints, limits, console files
        .target(name: "HubServer", dependencies: [
            "Accounts", "Cryptography", "DispatchNet", "HubEngine", "JSONTree", "Journal", "Limits", "LiveQueries", "Mail", "Outbound",
            "Scheduling", "SecurityRules", "Tokens", "WireProtocols",
            .product(name: "DequeModule", package: "swift-collections"),
            .product(name: "HTTPTypes", package: "swift-http-types"),
            .product(name: "Logging", package: "swift-log"),
        ], swiftSettings: shared + hotPath),
        // a server on a free port, and clients of every kind that see what a real peer sees
        .target(name: "TestHub", dependencies: [
            "HubServer", "Journal", "JSONTree", "Scheduling", "SecurityRules", "SQLiteJournal", "TestSupport", "WireProtocols",
            .product(name: "Logging", package: "swift-log"),
        ], path: "Tests/TestHub", swiftSettings: shared),
        .testTarget(name: "HubServerTests", dependencies: [
            "Accounts", "Cryptography", "DispatchNet", "HubEngine", "HubServer", "JSONTree", "Journal", "Mail", "Outbound", "Scheduling",
            "SecurityRules", "TestEndpoint", "TestHub", "TestSupport", "Tokens", "WireProtocols",
            .product(name: "HTTPTypes", package: "swift-http-types"), .product(name: "Logging", package: "swift-log"),
        ], swiftSettings: shared),

        // the contract's checklist, each check a test with its number, over real sockets
        .testTarget(name: "ConformanceTests", dependencies: [
            "Accounts", "DispatchNet", "HubEngine", "HubServer", "Journal", "JSONTree", "Scheduling", "SecurityRules", "TestHub",
            "TestSupport", "Tokens", "WireProtocols",
            .product(name: "Logging", package: "swift-log"),
        ], path: "Tests/Conformance", swiftSettings: shared),

        // a client of the observe protocol, for servers, tools and tests
        .target(name: "ViglaClient", dependencies: [
            "DispatchNet", "JSONTree", "LiveQueries", "WireProtocols", .product(name: "HTTPTypes", package: "swift-http-types"),
        ], swiftSettings: shared),
        .testTarget(name: "ViglaClientTests", dependencies: [
            "DispatchNet", "HubServer", "Journal", "JSONTree", "LiveQueries", "Scheduling", "SecurityRules", "TestSupport", "ViglaClient",
            "WireProtocols",
            .product(name: "Logging", package: "swift-log"),
        ], swiftSettings: shared),
        // runs what Tests/Clients asks of it
        .executableTarget(name: "client-peer", dependencies: [
            "DispatchNet", "JSONTree", "ViglaClient", "WireProtocols",
        ], path: "Tests/Clients/Peer", swiftSettings: shared),
        // docs/recipes.md, for `vigla rules new`
        .target(name: "CRecipes"),
        // the command line
        .executableTarget(name: "vigla", dependencies: [
            "Accounts", "CCurl", "CLinux", "CRecipes", "Curl", "DispatchNet", "HubServer", "JSONTree", "Journal", "LiveQueries", "Mail",
            "Outbound", "Scheduling", "SecurityRules", "SQLiteJournal", "Tokens", "ViglaClient", "WireProtocols",
            .product(name: "ArgumentParser", package: "swift-argument-parser"),
            .product(name: "Configuration", package: "swift-configuration"),
            .product(name: "HTTPTypes", package: "swift-http-types"),
            .product(name: "Logging", package: "swift-log"),
        ], swiftSettings: shared + cluster),
        .testTarget(name: "ViglaCommandTests", dependencies: [
            "JSONTree", "LiveQueries", "TestCertificates", "TestSupport", "vigla", "ViglaClient", "watchme-simulation", "WireProtocols",
            .product(name: "ArgumentParser", package: "swift-argument-parser"),
        ], swiftSettings: shared + cluster),
        // the walkers and followers of Examples/watchme
        .executableTarget(name: "watchme-simulation", dependencies: [
            "DispatchNet", "JSONTree", "ViglaClient", "WireProtocols",
            .product(name: "ArgumentParser", package: "swift-argument-parser"),
            .product(name: "Histogram", package: "hdrhistogram-swift"),
        ], path: "Examples/watchme/Simulation", swiftSettings: shared),

        // the bare C servers that serve as baselines of measurements
        .target(name: "CBaseline", path: "Benchmarks/CBaseline", linkerSettings: [.linkedLibrary("ssl"), .linkedLibrary("crypto")]),
        // load generator and micro-benchmarks
        .executableTarget(name: "vigla-bench", dependencies: [
            "Accounts", "CBaseline", "CLinux", "COpenSSL", "Cryptography", "DispatchNet", "HubEngine", "HubServer", "JSONTree", "Journal",
            "LiveQueries", "Scheduling", "SecurityRules", "SQLiteJournal", "Tokens", "WireProtocols",
            .product(name: "ArgumentParser", package: "swift-argument-parser"),
            .product(name: "Histogram", package: "hdrhistogram-swift"),
            .product(name: "HTTPTypes", package: "swift-http-types"),
            .product(name: "Logging", package: "swift-log"),
        ], path: "Benchmarks/vigla-bench", exclude: ["Instructions/figures.txt"], swiftSettings: shared),
    ],
    swiftLanguageModes: [.v6]
)

if hasNats {
    package.targets += [
        // the system's libnats
        .systemLibrary(name: "CNats", providers: [.apt(["libnats-dev"])]),
        // journals over NATS JetStream: the logs of a cluster of hubs, and each hub's copy
        .target(name: "ClusterJournal", dependencies: [
            "CNats", "Cryptography", "Journal", "JSONTree", "Scheduling", "SQLiteJournal",
            .product(name: "DequeModule", package: "swift-collections"), .product(name: "Logging", package: "swift-log"),
        ], swiftSettings: shared),
        // three NATS servers on this machine, for tests
        .target(name: "TestCluster", dependencies: [
            "ClusterJournal", "Journal", "Scheduling", "SQLiteJournal", "TestSupport", .product(name: "Logging", package: "swift-log"),
        ], path: "Tests/TestCluster", swiftSettings: shared),
        // a hub's journal in a separate process, which tests stop and kill
        .executableTarget(name: "cluster-writer", dependencies: [
            "ClusterJournal", "Journal", "JSONTree", "Scheduling", "SQLiteJournal", .product(name: "Logging", package: "swift-log"),
        ], path: "Tests/ClusterWriter", swiftSettings: shared),
        .testTarget(name: "ClusterJournalTests", dependencies: [
            "cluster-writer", "ClusterJournal", "CNats", "HubEngine", "Journal", "JSONTree", "Scheduling", "SecurityRules", "SQLiteJournal",
            "TestCertificates", "TestCluster", "TestSupport",
            .product(name: "Logging", package: "swift-log"),
        ], swiftSettings: shared),
    ]
    let users = ["JournalTests": ["ClusterJournal", "TestCluster"], "vigla": ["ClusterJournal"], "ViglaCommandTests": ["TestCluster"]]
    for target in package.targets {
        for name in users[target.name] ?? [] { target.dependencies.append(.init(stringLiteral: name)) }
    }
}

if let localeTable {
    package.targets.append(.target(name: "CLocaleData", cSettings: [.define("TABLE", to: localeTable)]))
    package.targets.first { $0.name == "vigla" }?.dependencies.append("CLocaleData")
}
