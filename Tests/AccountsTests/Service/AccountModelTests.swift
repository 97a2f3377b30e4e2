import JSONTree
import Testing
import TestSupport

@testable import Accounts

/// Random sequences of user actions, compared with a model that keeps accounts and sessions in plain lists.
@Suite(.timeLimit(.minutes(30))) struct AccountModelTests {
    private struct Model {
        struct Account {
            var email: String?
            var password: String?
            var isDisabled = false
            var isDeleted = false
        }

        struct Session {
            let account: Int
            var isOver = false
        }

        var accounts: [Account] = []
        var sessions: [Session] = []

        func holder(of email: String) -> Int? { accounts.indices.first { !accounts[$0].isDeleted && accounts[$0].email == email } }

        mutating func begin(_ account: Int) { sessions.append(Session(account: account)) }

        mutating func endAll(of account: Int) {
            for i in sessions.indices where sessions[i].account == account { sessions[i].isOver = true }
        }

        /// The expected error for tokens of a session.
        func fault(_ session: Int) -> String? {
            let account = accounts[sessions[session].account]
            return account.isDeleted ? "USER_NOT_FOUND" : account.isDisabled ? "USER_DISABLED" : sessions[session].isOver ? "TOKEN_EXPIRED"
                : nil
        }
    }

    @Test(arguments: 1...12) func sequences_endAsTheModelSays(seed: UInt64) async throws {
        var random = SeededRandom(seed)
        let bench = try AccountBench()
        var model = Model()
        var (ids, tokens): ([String], [Reply]) = ([], [])
        let (emails, passwords) = (["a@x.org", "b@x.org", "c@x.org"], ["first horse", "second horse"])

        for step in 0..<120 {
            if random.next() % 4 == 0 { bench.clock.advance(seconds: 1) }
            let (email, password) = (emails.randomElement(using: &random) ?? "", passwords.randomElement(using: &random) ?? "")
            let session = model.sessions.indices.randomElement(using: &random)
            let token = session.flatMap { tokens[$0]["idToken"] } ?? .null
            var expected: String?
            let reply: Reply
            /// The account whose session starts with the answer.
            var begun: Int?
            switch (random.next() % 9, session) {
            case (0, _):
                expected = model.holder(of: email) == nil ? nil : "EMAIL_EXISTS"
                reply = try await bench.call("signUp", ["email": .string(email), "password": .string(password)])
                if expected == nil {
                    model.accounts.append(.init(email: email, password: password))
                    begun = model.accounts.count - 1
                }
            case (1, _):
                reply = try await bench.call("signUp")
                model.accounts.append(.init())
                begun = model.accounts.count - 1
            case (2, _):
                reply = try await bench.signIn(email, password)
                if let holder = model.holder(of: email) {
                    let account = model.accounts[holder]
                    expected = account.password != password ? "INVALID_PASSWORD" : account.isDisabled ? "USER_DISABLED" : nil
                    if expected == nil { begun = holder }
                } else { expected = "EMAIL_NOT_FOUND" }
            case (3, let session?):
                reply = try await bench.call("signUp", ["idToken": token, "email": .string(email), "password": .string(password)])
                let own = model.sessions[session].account
                expected = model.holder(of: email).map { $0 != own } == true ? "EMAIL_EXISTS" : model.fault(session)
                if expected == nil {
                    (model.accounts[own].email, model.accounts[own].password) = (email, password)
                    model.endAll(of: own)
                    begun = own
                }
            case (4, let session?):
                reply = try await bench.call("update", ["idToken": token, "password": .string(password)])
                expected = model.fault(session)
                if expected == nil {
                    let own = model.sessions[session].account
                    model.accounts[own].password = password
                    model.endAll(of: own)
                    begun = own
                }
            case (5, let session?) where random.next() % 3 == 0:
                reply = try await bench.call("delete", ["idToken": token])
                expected = model.fault(session)
                if expected == nil { model.accounts[model.sessions[session].account].isDeleted = true }
            case (6, let session?):
                let account = model.sessions[session].account
                guard !model.accounts[account].isDeleted else { continue }
                let isDisabled = random.next() % 2 == 0
                model.accounts[account].isDisabled = isDisabled
                try await bench.change(ids[account]) { $0.isDisabled = isDisabled }
                continue
            case (7, let session?):
                reply = try await bench.refresh(tokens[session]["refreshToken"]?.string)
                expected = model.fault(session)
                if expected == nil { #expect(reply["user_id"] == .string(ids[model.sessions[session].account])) }
            case (_, let session?):
                reply = try await bench.call("lookup", ["idToken": token])
                expected = model.fault(session)
                if expected == nil {
                    let account = model.accounts[model.sessions[session].account]
                    let user = reply["users"]?.elements?.first
                    #expect(user?["email"] == account.email.map(JSONValue.string))
                    #expect((user?["passwordHash"] != nil) == (account.password != nil))
                }
            default: continue
            }
            #expect(reply.error == expected, "step \(step) of seed \(seed)")
            guard let begun, expected == nil else { continue }
            let id = try #require(reply["localId"]?.string, "step \(step) of seed \(seed)")
            if begun == ids.count { ids.append(id) }
            #expect(ids[begun] == id)
            model.begin(begun)
            tokens.append(reply)
        }
        let left = try await bench.service.stored { try $0.accounts(after: "", limit: 1000).map(\.id) }
        #expect(Set(left) == Set(model.accounts.indices.filter { !model.accounts[$0].isDeleted }.map { ids[$0] }))
    }
}
