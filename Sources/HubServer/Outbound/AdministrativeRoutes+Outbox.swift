import HTTPTypes
import HubEngine
import JSONTree
import Logging
import WireProtocols

/// `/.outbox`: notifications and events that are not over, for administrators (docs/rest.md).
extension AdministrativeRoute {
    static let outbox: [AdministrativeRoute] = [
        // ?state=dead|waiting, ?after=ID, ?limit=N
        AdministrativeRoute(.get, ".outbox") { $0.listOutbox() },
        // Both: ?id=ID or ?all=true.
        AdministrativeRoute(.post, ".outbox/retry") { call in
            call.change("retried") { call.database.retryDeliveries($0, $1) }
        },
        AdministrativeRoute(.delete, ".outbox") { call in
            call.change("discarded") { call.database.discardDeliveries($0, $1) }
        },
        AdministrativeRoute(.post, ".outbox/test") { $0.sendTest() },
    ]
}

extension AdministrativeCall {
    private func refuse(_ failure: Failure) {
        let refusal = RESTRefusal(failure)
        response.sendLater(refusal.status, refusal.body, isHead: isHead)
    }

    fileprivate func listOutbox() {
        let state = parameter("state") ?? "dead"
        guard ["dead", "waiting"].contains(state) else { return refuse(.badRequest, "state is dead or waiting.") }
        let limit = parameter("limit").map { Int($0) ?? 0 } ?? 100
        guard 1...Database.outboxPage ~= limit else {
            return refuse(.badRequest, "limit is a number from 1 to \(Database.outboxPage).")
        }
        database.outbox(dead: state == "dead", after: parameter("after"), limit: limit) { entries, next in
            let members: [JSONValue.Member] = [.init("entries", .array(entries.map(\.json)))]
            answer(.object(members + (next.map { [.init("next", .string($0))] } ?? [])))
        }
    }

    /// Changes one dead letter, or all.
    fileprivate func change(
        _ done: String, _ change: (DeadLetters, @escaping @Sendable (Result<Int, Failure>) -> Void) -> Void
    ) {
        let letters: DeadLetters
        switch (parameter("id"), parameter("all")) {
        case (let id?, nil) where !id.isEmpty: letters = .one(id)
        case (nil, "true"): letters = .all
        default: return refuse(.badRequest, "Expected either id=ID, of a dead letter, or all=true.")
        }
        change(letters) { result in
            switch result {
            case .failure(let failure): refuse(failure)
            case .success(0) where letters.isOne: refuse(.notFound, "There is no dead letter with this id.")
            case .success(let count):
                server.logger.notice("dead letters \(done)", metadata: ["namespace": "\(namespace)", "count": "\(count)"])
                answer(["count": .int(Int64(count))])
            }
        }
    }

    /// `{"device":"/devices/ana/phone","title":"…","text":"…"}`; the texts may be left out.
    fileprivate func sendTest() {
        let body = body
        guard let text = body["device"]?.string, let device = try? Path(parsing: text), !device.isRoot else {
            return refuse(.badRequest, "Expected an object such as {\"device\":\"/devices/ana/phone\"}.")
        }
        let (title, content) = (body["title"]?.string ?? "Test", body["text"]?.string ?? "This is a test of the hub.")
        database.sendTest(to: device, title: title, text: content) { result in
            switch result {
            case .failure(let failure): refuse(failure)
            case .success(let id): answer(["id": .string(id)])
            }
        }
    }
}

extension DeadLetters {
    fileprivate var isOne: Bool { if case .one = self { true } else { false } }
}

extension OutboxEntry {
    /// Times are ms since the epoch.
    fileprivate var json: JSONValue {
        var members: [JSONValue.Member] = [.init("id", .string(id))]
        switch state {
        case .waiting(let due): members += [.init("state", "waiting"), .init("due", .int(due))]
        case .dead(let reason, let diedAt):
            members += [.init("state", "dead"), .init("reason", .string(reason)), .init("diedAt", .int(diedAt))]
        }
        members += [.init("rule", .string(rule)), .init("source", .string("\(source)"))]
        if let device { members.append(.init("device", .string("\(device)"))) }
        if let webhook { members.append(.init("webhook", .string(webhook))) }
        if !title.isEmpty { members.append(.init("title", .string(title))) }
        members += [.init("attempts", .int(Int64(attempts))), .init("at", .int(at)), .init("expires", .int(expires))]
        return .object(members)
    }
}
