// swift-tools-version: 6.2
import PackageDescription

/// Settings shared by every Swift target: Swift 6 mode, explicit `any`, and imports that say what they use.
/// `VIGLA_STRICT=1` (set by CI) turns warnings into errors.
var shared: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
]
if Context.environment["VIGLA_STRICT"] == "1" { shared.append(.treatAllWarnings(as: .error)) }

let package = Package(
    name: "vigla",
    dependencies: [
        .package(url: "https://github.com/apple/swift-crypto.git", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-http-types.git", from: "1.8.0"),
    ],
    targets: [
        // values, keys, paths, order, the persistent tree, JSON bytes ⇄ nodes
        .target(name: "JSONTree", dependencies: [.product(name: "Crypto", package: "swift-crypto")], swiftSettings: shared),
        .testTarget(name: "JSONTreeTests", dependencies: ["JSONTree"], swiftSettings: shared),

        // epoll, timerfd, accept4: what Glibc's module leaves out
        .target(name: "CLinux"),
        // loops, listeners, connections, timers
        .target(name: "DispatchNet", dependencies: ["CLinux"], swiftSettings: shared),
        .testTarget(name: "DispatchNetTests", dependencies: ["DispatchNet", "CLinux"], swiftSettings: shared),

        // HTTP/1.1, WebSocket frames, realtime v5, observe: state machines over bytes
        .target(name: "WireProtocols", dependencies: [
            "JSONTree",
            .product(name: "Crypto", package: "swift-crypto"),
            .product(name: "HTTPTypes", package: "swift-http-types"),
        ], swiftSettings: shared),
        .testTarget(name: "WireProtocolsTests", dependencies: ["WireProtocols"], swiftSettings: shared),
    ],
    swiftLanguageModes: [.v6]
)
