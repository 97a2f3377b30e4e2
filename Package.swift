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
    ],
    targets: [
        // values, keys, paths, order, the persistent tree, JSON bytes ⇄ nodes
        .target(name: "JSONTree", dependencies: [.product(name: "Crypto", package: "swift-crypto")], swiftSettings: shared),
        .testTarget(name: "JSONTreeTests", dependencies: ["JSONTree"], swiftSettings: shared),

        // security rules: parse → check → compile → evaluate, with trace
        .target(name: "SecurityRules", dependencies: ["JSONTree"], swiftSettings: shared),
        .testTarget(name: "SecurityRulesTests", dependencies: ["SecurityRules", "JSONTree"], swiftSettings: shared),
    ],
    swiftLanguageModes: [.v6]
)
