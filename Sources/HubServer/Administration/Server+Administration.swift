import DispatchNet
import HTTPTypes
import HubEngine
import JSONTree
import Logging
import Scheduling
import SecurityRules
import Synchronization
import WireProtocols

/// `/.settings/…` and `/.inspect/…`: for administrators, whatever the rules say (contract §7.7).
///
///     GET, PUT  /.settings/rules.json                    | the rules; ?format=strict, ?dryRun=true, ?details=true
///     GET       /.settings/derived.json                  | counters, copies and expiries that are not yet complete; ?wait=MS
///     POST      /.settings/checkRules                    | the result of a dry run; 200 also for faulty rules
///     POST      /.settings/explain                       | how the rules decide one operation
///     POST      /.settings/testRules                     | runs cases against the rules in force, or others
///     GET       /.settings/formerRules.json              | the texts that were in force before
///     GET       /.settings/refusals.json                 | the latest refusals; ?after=NUMBER
///     GET, PUT  /.settings/defaultWriteSizeLimit.json    | for writes without `writeSizeLimit`
///     GET, PUT  /.settings/strictTriggerValidation.json  | stored, without effect: there are no triggers
///     PUT, POST /.settings/functionTriggers.json         | accepted, without effect
///     GET, POST /.settings/secrets.json                  | the secrets; POST creates one: {"name":"backup"}
///     DELETE    /.settings/secrets/ID.json               | revokes one
///     GET       /.inspect/databases.json                 | the open namespaces
///     GET       /.inspect/cluster.json                   | the cluster's hubs, and each shard's writer
///     GET       /.inspect/log.json                       | the last lines of the log; ?after=NUMBER
extension Server {
    /// Carries out an administrative request; refuses callers without administrator rights.
    func administer(_ request: HTTPInboundRequest, _ database: Database, _ connection: Connection, _ answer: PendingResponse) {
        let isHead = request.method == .head
        // Test suites request this from the vendor's emulator without a credential.
        if settings.isDev, request.target.segments == [".inspect", "coverage"] || request.target.segments == [".inspect", "coverage.json"] {
            let text = "The coverage of rules by requests is not recorded. vigla rules test FILE CASES --coverage reports that of cases."
            return answer.sendLater(.notImplemented, Self.error(text), isHead: isHead)
        }
        // No override: `auth_variable_override` applies to data only.
        let address = { [self] in countedAddress(of: request, connection) }
        identify(RESTRequest.credential(request), override: nil, lanes[answer.loopIndex], of: address) { [self] result in
            switch result {
            case .failure(let failure): answer.refuse(RESTRefusal(failure), isHead: isHead)
            case .success(let identity) where !identity.isAdmin:
                answer.refuse(RESTRefusal(.unauthorized, "Permission denied"), isHead: isHead)
            case .success: carryOut(request, database) { answer.sendLater($0, $1, isHead: isHead) }
            }
        }
    }

    /// - Parameter done: called once, from any thread, with the status and a JSON body.
    private func carryOut(
        _ request: HTTPInboundRequest, _ database: Database, _ done: @escaping @Sendable (HTTPResponse.Status, [UInt8]) -> Void
    ) {
        var name = request.target.segments.joined(separator: "/")
        if name.hasSuffix(".json") { name.removeLast(5) }
        let method: HTTPRequest.Method = request.method == .head ? .get : request.method
        switch (method, name) {
        case (.get, ".settings/rules"):
            guard let rules = rules(of: database.name) else { return done(.notFound, Self.error("Unknown namespace.")) }
            done(.ok, Array((request.target.value("format") == "strict" ? rules.plainJSON : rules.text).utf8))
        case (.put, ".settings/rules"):
            let isDetailed = request.target.value("details") == "true"
            deployRules(request.body, namespace: database.name, isDryRun: request.target.value("dryRun") == "true") {
                done($0.status, $0.json(details: isDetailed))
            }
        case (.post, ".settings/checkRules"):
            // For editors: faulty rules are a normal result there, and a browser would log every 400 on its console.
            deployRules(request.body, namespace: database.name, isDryRun: true) {
                done($0.status == .badRequest ? .ok : $0.status, $0.json(details: true))
            }
        case (.get, ".settings/derived"):
            let wait = min(max(0, Self.number(request, "wait")), settings.limits.derivedWaitMs)
            database.whenDerived(waitMs: Int64(wait)) { done(.ok, $0.json) }
        case (.post, ".settings/explain"): explain(request.body, namespace: database.name, done)
        case (.post, ".settings/testRules"): testRules(request.body, namespace: database.name, done)
        case (.get, ".settings/formerRules"): done(.ok, rulesInForce.former(of: database.name))
        case (.get, ".settings/refusals"):
            done(.ok, recentRefusals.json(of: database.name, after: Self.number(request, "after")))
        case (.get, ".inspect/log"):
            guard let log = settings.recentLog else { return done(.notFound, Self.error("This hub keeps no lines of its log.")) }
            done(.ok, log.json(after: Self.number(request, "after")))
        case (.get, ".settings/defaultWriteSizeLimit"), (.get, ".settings/strictTriggerValidation"):
            done(.ok, smallSettings.value(name, of: database.name))
        case (.put, ".settings/defaultWriteSizeLimit"), (.put, ".settings/strictTriggerValidation"):
            guard smallSettings.put(request.body, name, of: database.name) else {
                return done(.badRequest, Self.error("Not a value that \(name) can have."))
            }
            done(.ok, request.body)
        case (.put, ".settings/functionTriggers"), (.post, ".settings/functionTriggers"): done(.ok, Array("{\"status\":\"ok\"}\n".utf8))
        case (.get, ".settings/secrets"): done(.ok, Self.list(secrets.all))
        case (.post, ".settings/secrets"): addSecret(request.body, done)
        case (.delete, _) where name.hasPrefix(".settings/secrets/"):
            let id = String(name.dropFirst(".settings/secrets/".utf8.count))
            secrets.remove(id) { [logger] fault in
                if fault == nil { logger.notice("secret removed", metadata: ["id": "\(id)"]) }
                done(fault.map(\.status) ?? .ok, fault.map { Self.error("\($0)") } ?? Array("null\n".utf8))
            }
        case (.get, ".inspect/databases"):
            // Names have no character that JSON would escape.
            let names = hub.all.map(\.name).sorted().map { "{\"name\":\"\($0)\"}" }
            done(.ok, Array("[\(names.joined(separator: ","))]\n".utf8))
        case (.get, ".inspect/cluster"):
            guard let report = clusterJSON else { return done(.notFound, Self.error("This hub was started without --cluster.")) }
            done(.ok, report)
        case (_, ".inspect/cluster"), (_, ".settings/rules"),
            (_, ".settings/derived"), (_, ".settings/checkRules"), (_, ".settings/explain"),
            (_, ".settings/testRules"), (_, ".settings/formerRules"), (_, ".settings/refusals"),
            (_, ".settings/defaultWriteSizeLimit"), (_, ".settings/strictTriggerValidation"),
            (_, ".settings/functionTriggers"), (_, ".settings/secrets"), (_, ".inspect/databases"), (_, ".inspect/log"):
            done(.methodNotAllowed, Self.error("Method \(request.method.rawValue) is not supported here."))
        default: done(.notFound, Self.error("There is no /\(name.prefix(64))."))
        }
    }

    private func addSecret(_ body: [UInt8], _ done: @escaping @Sendable (HTTPResponse.Status, [UInt8]) -> Void) {
        let asked = body.withUnsafeBytes { bytes -> Node? in
            var reader = JSONReader(bytes)
            return try? reader.claims()
        }
        let name: String
        switch asked?.child("name") {
        case .string(let text): name = text.string
        case .null: name = ""
        default: return done(.badRequest, Self.error("Expected an object such as {\"name\":\"backup\"}."))
        }
        secrets.add(name, madeAt: scheduler.wallMs) { [logger] result in
            switch result {
            case .failure(let fault): done(fault.status, Self.error("\(fault)"))
            case .success(let (entry, secret)):
                logger.notice("secret made", metadata: ["id": "\(entry.id)"])
                var writer = JSONWriter()
                writer.raw("{\"id\":")
                writer.string(entry.id)
                writer.raw(",\"secret\":")
                writer.string(secret)
                writer.raw("}\n")
                done(.ok, writer.bytes)
            }
        }
    }

    private static func list(_ secrets: [Secrets.Entry]) -> [UInt8] {
        var writer = JSONWriter()
        writer.raw("{\"secrets\":[")
        for (i, entry) in secrets.enumerated() {
            writer.raw(i > 0 ? ",{\"id\":" : "{\"id\":")
            writer.string(entry.id)
            writer.raw(",\"name\":")
            writer.string(entry.name)
            writer.raw(",\"madeAt\":")
            writer.int(entry.madeAt)
            writer.raw("}")
        }
        writer.raw("]}\n")
        return writer.bytes
    }

    private static func error(_ text: String) -> [UInt8] { RESTRefusal(.badRequest, text).body }

    /// A number of the query; 0 when it is absent or anything else.
    private static func number(_ request: HTTPInboundRequest, _ name: String) -> Int { request.target.value(name).flatMap(Int.init) ?? 0 }
}

extension SecretFault {
    fileprivate var status: HTTPResponse.Status {
        switch self {
        case .tooMany, .nameTooLong: .badRequest
        case .unknown: .notFound
        case .notStored: .serviceUnavailable
        }
    }
}

/// Settings that the SDKs' command-line tool reads and writes. Kept in memory only.
final class SmallSettings: Sendable {
    private let values = Mutex<[String: [UInt8]]>([:])

    private static let writeSize = ".settings/defaultWriteSizeLimit"

    func value(_ name: String, of namespace: String) -> [UInt8] {
        values.withLock { $0[namespace + name] } ?? Array((name == Self.writeSize ? "\"unlimited\"" : "false").utf8)
    }

    /// - Returns: false for a value that the setting cannot have.
    func put(_ body: [UInt8], _ name: String, of namespace: String) -> Bool {
        let text = String(decoding: body, as: UTF8.self).filter { !$0.isWhitespace }
        let isKnown = name == Self.writeSize
            ? RESTRequest.WriteSize.allCases.contains { text == "\"\($0.rawValue)\"" } : ["true", "false"].contains(text)
        guard isKnown else { return false }
        values.withLock { $0[namespace + name] = Array(text.utf8) }
        return true
    }

    /// The size limit of writes without `writeSizeLimit`.
    func writeSize(of namespace: String) -> RESTRequest.WriteSize {
        let text = String(decoding: value(Self.writeSize, of: namespace), as: UTF8.self)
        return RESTRequest.WriteSize(rawValue: String(text.dropFirst().dropLast())) ?? .unlimited
    }
}
