import Dispatch
import HTTPTypes
import HubEngine
import JSONTree
import Logging
import Scheduling
import SecurityRules
import WireProtocols

/// One operation for administrators, and its path below `/.settings` or `/.inspect` (contract §7.7), or `/.outbox`.
struct AdministrativeRoute: Sendable {
    typealias Operation = @Sendable (AdministrativeCall) -> Void

    let method: HTTPRequest.Method
    /// Without a leading slash and without `.json`; `{id}` for the last segment of an entry in a list.
    let path: String
    /// Whether it concerns the whole hub: the secret of one database is not enough.
    var isForHub = false
    /// Exists only on a development hub, without a credential: test suites request it from the vendor's emulator.
    var isForTestSuites = false
    /// Answers the call once, from any thread.
    let operation: Operation

    init(
        _ method: HTTPRequest.Method, _ path: String, isForHub: Bool = false, isForTestSuites: Bool = false,
        _ operation: @escaping Operation
    ) {
        self.method = method
        self.path = path
        self.isForHub = isForHub
        self.isForTestSuites = isForTestSuites
        self.operation = operation
    }

    static let byPath = Dictionary(grouping: all + outbox, by: \.path)

    private static let all: [AdministrativeRoute] = [
        // The rules: GET takes ?format=strict, PUT ?dryRun=true and ?details=true.
        AdministrativeRoute(.get, ".settings/rules") { call in
            guard let rules = call.server.rules(of: call.namespace) else { return call.refuse(.notFound, "Unknown namespace.") }
            call.answer(Array((call.parameter("format") == "strict" ? rules.plainJSON : rules.text).utf8))
        },
        AdministrativeRoute(.put, ".settings/rules") { call in
            let isDryRun = call.parameter("dryRun") == "true"
            call.server.deployRules(call.request.body, namespace: call.namespace, isDryRun: isDryRun) {
                call.answer($0.json(details: call.parameter("details") == "true"), $0.status)
            }
        },
        // For editors: faulty rules are a normal result there, and a browser would log every 400 on its console.
        AdministrativeRoute(.post, ".settings/checkRules") { call in
            call.server.deployRules(call.request.body, namespace: call.namespace, isDryRun: true) {
                call.answer($0.json(details: true), $0.status == .badRequest ? .ok : $0.status)
            }
        },
        AdministrativeRoute(.get, ".settings/formerRules") { $0.answer($0.server.rulesInForce.former(of: $0.namespace)) },
        AdministrativeRoute(.post, ".settings/explain") { call in
            call.server.explain(call.request.body, namespace: call.namespace) { call.answer($1, $0) }
        },
        // In sentences: the rules in force, or those of the body; ?place=/posts/p for one place and what is below.
        AdministrativeRoute(.get, ".settings/explainRules") { call in
            call.server.describeRules(nil, of: call) { call.answer($1, $0) }
        },
        AdministrativeRoute(.post, ".settings/explainRules") { call in
            call.server.describeRules(call.request.body, of: call) { call.answer($1, $0) }
        },
        AdministrativeRoute(.post, ".settings/testRules") { call in
            call.server.testRules(call.body, namespace: call.namespace) { call.answer($1, $0) }
        },
        AdministrativeRoute(.get, ".settings/refusals") {
            $0.answer($0.server.records.recentRefusals.json(of: $0.namespace, after: $0.number("after")))
        },
        // Counters, copies and expiries that are not yet complete; waits for them up to ?wait=MS.
        AdministrativeRoute(.get, ".settings/derived") { call in
            let wait = min(max(0, call.number("wait")), call.server.settings.limits.derivedWaitMs)
            call.database.whenDerived(waitMs: Int64(wait)) { call.answer($0.json) }
        },

        // Settings that the SDKs' command-line tool reads and writes. There are no triggers, so theirs have no effect.
        .get(.writeSizeLimit), .put(.writeSizeLimit), .get(.strictTriggerValidation), .put(.strictTriggerValidation),
        AdministrativeRoute(.put, ".settings/functionTriggers") { $0.answer(["status": "ok"]) },
        AdministrativeRoute(.post, ".settings/functionTriggers") { $0.answer(["status": "ok"]) },

        AdministrativeRoute(.get, ".settings/databases", isForHub: true) { $0.answer(["databases": $0.server.databasesJSON]) },
        AdministrativeRoute(.put, ".settings/databases/{id}", isForHub: true) { $0.createDatabase() },
        AdministrativeRoute(.delete, ".settings/databases/{id}", isForHub: true) { call in
            call.server.removeDatabase(call.lastSegment) { fault in
                if let fault { call.refuse(fault.status, "\(fault)") } else { call.answer(.null) }
            }
        },

        // See `AdministrativeCall.secrets`.
        AdministrativeRoute(.get, ".settings/secrets") { call in
            let list = call.secrets.flatMap(\.all).map { secret -> JSONValue in
                ["id": .string(secret.id), "name": .string(secret.name), "madeAt": .int(secret.madeAt)]
            }
            call.answer(["secrets": .array(list)])
        },
        AdministrativeRoute(.post, ".settings/secrets") { $0.addSecret() },
        AdministrativeRoute(.delete, ".settings/secrets/{id}") { call in
            let id = call.lastSegment
            guard let secrets = call.secrets.first(where: { $0.all.contains { $0.id == id } }) else {
                return call.refuse(SecretFault.unknown.status, "\(SecretFault.unknown)")
            }
            secrets.remove(id) { fault in
                if let fault { return call.refuse(fault.status, "\(fault)") }
                call.server.logger.notice("secret removed", metadata: ["id": "\(id)"])
                call.answer(.null)
            }
        },

        AdministrativeRoute(.get, ".inspect/databases") { call in
            let names = call.isOfHub ? call.server.hub.all.map(\.name).sorted() : [call.namespace]
            call.answer(.array(names.map { ["name": .string($0)] }))
        },
        AdministrativeRoute(.get, ".inspect/cluster", isForHub: true) { call in
            guard let report = call.server.clusterJSON else { return call.refuse(.notFound, "This hub was started without --cluster.") }
            call.answer(report)
        },
        AdministrativeRoute(.get, ".inspect/log", isForHub: true) { call in
            guard let log = call.server.settings.recentLog else { return call.refuse(.notFound, "This hub keeps no lines of its log.") }
            call.answer(log.json(after: call.number("after")))
        },
        AdministrativeRoute(.get, ".inspect/coverage", isForTestSuites: true) {
            $0.refuse(
                .notImplemented,
                "The coverage of rules by requests is not recorded. vigla rules test FILE CASES --coverage reports that of cases.")
        },
    ]

    private static func get(_ setting: SmallSettings.Name) -> AdministrativeRoute {
        AdministrativeRoute(.get, setting.rawValue) { $0.answer($0.server.smallSettings.value(setting, of: $0.namespace).bytes) }
    }

    private static func put(_ setting: SmallSettings.Name) -> AdministrativeRoute {
        AdministrativeRoute(.put, setting.rawValue) { call in
            guard call.server.smallSettings.put(call.body, setting, of: call.namespace) else {
                return call.refuse(.badRequest, "Not a value that \(setting.rawValue) can have.")
            }
            call.answer(call.request.body)
        }
    }
}

extension AdministrativeCall {
    /// `{"accounts":"own","rules":"{\"rules\":…}"}`; the rules are the text of a file.
    fileprivate func createDatabase() {
        // Rules take long to parse: not on the net loop.
        Server.changes.async { createDatabase(body) }
    }

    private func createDatabase(_ body: JSONValue) {
        guard body.members != nil, let choice = body["accounts"].map(\.string) ?? "own", ["own", "shared"].contains(choice) else {
            return refuse(.badRequest, "Expected an object such as {\"accounts\":\"own\",\"rules\":\"…\"}.")
        }
        var rules: RuleSet?
        if let text = body["rules"] {
            do throws(RulesErrors) { rules = try RuleSet(parsing: Array((text.string ?? "").utf8)) } catch {
                let answer = RulesAnswer.refused(error)
                return self.answer(answer.json(details: true), answer.status)
            }
        }
        server.createDatabase(lastSegment, isShared: choice == "shared", rules: rules) { fault in
            if let fault { refuse(fault.status, "\(fault)") } else { answer(["name": .string(lastSegment)]) }
        }
    }

    fileprivate func addSecret() {
        let body = body
        let name = body["name"] ?? .null
        guard body.members != nil, let name = name.isNull ? "" : name.string else {
            return refuse(.badRequest, "Expected an object such as {\"name\":\"backup\"}.")
        }
        guard let secrets = secrets.first else {
            return answer(RESTRefusal.databaseIsRemoved.body, RESTRefusal.databaseIsRemoved.status)
        }
        secrets.add(name, madeAt: server.scheduler.wallMs) { [self] result in
            switch result {
            case .failure(let fault): refuse(fault.status, "\(fault)")
            case .success(let (entry, secret)):
                server.logger.notice("secret made", metadata: ["id": "\(entry.id)"])
                answer(["id": .string(entry.id), "secret": .string(secret)])
            }
        }
    }
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
