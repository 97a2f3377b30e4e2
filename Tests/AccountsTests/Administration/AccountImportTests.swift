import Cryptography
import Foundation
import HTTPTypes
import JSONTree
import Testing

@testable import Accounts

/// `accounts:batchCreate` (accounts contract §10).
@Suite(.timeLimit(.minutes(30))) struct AccountImportTests {
    private static let password = "s3cret-Пароль"
    private static let salt = Array("0123456789abcdef".utf8)

    private static func web(_ bytes: [UInt8]) -> JSONValue { .string(Base64.encodeURL(bytes)) }

    @Test func check71_importedAccount_isSeenWhole() async throws {
        let bench = try AccountBench()
        let user: JSONValue = [
            "localId": "one", "email": "One@example.org", "emailVerified": true, "displayName": "One", "photoUrl": "p",
            "phoneNumber": "+3069",
            "disabled": false, "customAttributes": #"{"role":"staff"}"#, "createdAt": 1_600_000_000_123, "lastLoginAt": "1700000000456",
            "providerUserInfo": [
                ["providerId": "google.com", "rawId": "g1", "email": "G@example.org", "displayName": "G"],
                // The SDKs send these as well; the other fields imply them.
                ["providerId": "password", "rawId": "one@example.org"], ["providerId": "phone", "rawId": "+3069"],
            ],
        ]
        #expect(
            try await bench.administrate("accounts:batchCreate", ["users": [user]]) == ["kind": "identitytoolkit#UploadAccountResponse"])
        let seen = try #require(try await bench.seen("one"))
        for name in ["emailVerified", "displayName", "photoUrl", "phoneNumber", "disabled", "customAttributes", "lastLoginAt"] {
            #expect(seen[name] == user[name], "\(name)")
        }
        #expect(seen["email"] == "one@example.org" && seen["createdAt"] == "1600000000123")
        let google: JSONValue = [
            "providerId": "google.com", "rawId": "g1", "federatedId": "g1", "email": "g@example.org", "displayName": "G",
        ]
        #expect(seen["providerUserInfo"]?.elements?.first == google)
        #expect(seen["providerUserInfo"]?.elements?.map { $0["providerId"] } == ["google.com", "phone"])
        let legacy = try await bench.exchange(
            .post, "\(AccountBench.legacy)/uploadAccount", ["targetProjectId": "demo-app", "users": [["localId": "two"]]],
            authorization: "Bearer \(AccountBench.administrator)")
        #expect(legacy["error"] == nil)
        #expect(try await bench.seen("two") != nil)
    }

    @Test func refusedUsers_areNamed_andTheOthersImported() async throws {
        let bench = try AccountBench()
        try await bench.administrate("accounts", ["localId": "old", "email": "taken@example.org", "phoneNumber": "+3069"])
        let answer = try await bench.administrate(
            "accounts:batchCreate",
            ["users": [
                ["localId": "a", "email": "taken@example.org"], ["localId": "b", "email": "b@example.org"], ["email": "c@example.org"],
                ["localId": "d", "email": "B@example.org"], ["localId": "old"], ["localId": "e", "email": "nomail"],
                ["localId": "f", "customAttributes": "[]"], ["localId": "g", "phoneNumber": "+3069"],
                ["localId": "h", "rawPassword": "short"], ["localId": "i"], ["localId": "j", "customAttributes": #"{"sub":"1"}"#],
                ["localId": "k", "customAttributes": .string(#"{"a":"\#(String(repeating: "x", count: 1000))"}"#)],
                ["localId": "l", "phoneNumber": "3069"], ["localId": "m", "providerUserInfo": [["providerId": "google.com"]]],
                ["localId": "n", "mfaInfo": [["phoneInfo": "+3069"]]], ["localId": "o", "mfaInfo": []],
            ]])
        let errors = try #require(answer["error"]?.elements).map { "\($0["index"]?.int ?? -1) \($0["message"]?.string ?? "")" }
        #expect(
            errors == [
                "0 email exists in other account in database", "2 localId is missing", "3 email exists in other account in database",
                "4 localId belongs to an existing account - can not overwrite.", "5 email is invalid",
                "6 Invalid custom claims provided.", "7 PHONE_NUMBER_EXISTS",
                "8 WEAK_PASSWORD : Password should be at least 6 characters", "10 Custom claims provided include a reserved claim.",
                "11 Custom claims provided are too large.", "12 phone number format is invalid",
                "13 federatedId or (providerId & rawId) is required",
                "14 OPERATION_NOT_ALLOWED : There are no second factors here; remove them from the account first",
            ])
        let all = try await bench.administrate("accounts:batchGet?maxResults=100", nil, .get)
        #expect(all["users"]?.elements?.map { $0["localId"] } == ["b", "i", "o", "old"])
    }

    @Test func listThatNamesOneTwice_isRefusedAsAWhole() async throws {
        let bench = try AccountBench()
        let google: JSONValue = [["providerId": "google.com", "rawId": "1099"]]
        let lists: [(JSONValue, String)] = [
            ([["localId": "a"], ["localId": "b"], ["localId": "a"]], "DUPLICATE_LOCAL_ID : a"),
            ([["localId": "a", "email": "x@example.org"], ["localId": "b", "email": "X@example.org"]], "DUPLICATE_EMAIL : x@example.org"),
            (
                [["localId": "a", "providerUserInfo": google], ["localId": "b", "providerUserInfo": google]],
                "DUPLICATE_RAW_ID : Provider id(google.com), Raw id(1099)"
            ),
        ]
        for (users, message) in lists {
            await #expect(throws: Refusal(message)) {
                try await bench.administrate("accounts:batchCreate", ["users": users, "sanityCheck": true])
            }
        }
        #expect(try await bench.administrate("accounts:query", ["returnUserInfo": false])["recordsCount"] == "0")
        // With overwriting, the last entry wins.
        try await bench.administrate("accounts:batchCreate", ["users": lists[0].0, "allowOverwrite": true])
        #expect(try await bench.administrate("accounts:query", ["returnUserInfo": false])["recordsCount"] == "2")
    }

    @Test func account_isReplacedOnDemandOnly_andItsSessionsEnd() async throws {
        let bench = try AccountBench()
        let (uid, session) = try await bench.newUser("ana@example.org")
        let users: JSONValue = [["localId": .string(uid), "displayName": "Imported"]]
        let refused = try await bench.administrate("accounts:batchCreate", ["users": users])
        #expect(refused["error"]?.elements?.count == 1)
        #expect(try await bench.seen(uid)?["email"] == "ana@example.org")
        #expect(try await bench.administrate("accounts:batchCreate", ["users": users, "allowOverwrite": true])["error"] == nil)
        let seen = try #require(try await bench.seen(uid))
        #expect(seen["displayName"] == "Imported" && seen["email"] == nil && seen["passwordHash"] == nil)
        await #expect(throws: Refusal("TOKEN_EXPIRED")) { try await bench.refreshed(session) }
    }

    @Test func sizeOfAnImport_isBounded() async throws {
        let bench = try AccountBench { $0.changedAtOnce = 2 }
        await #expect(throws: Refusal("MISSING_USER_ACCOUNT")) { try await bench.administrate("accounts:batchCreate", ["users": []]) }
        try await bench.administrate("accounts:batchCreate", ["users": [["localId": "a"], ["localId": "b"]]])
        let refusal = await #expect(throws: Refusal.self) {
            try await bench.administrate("accounts:batchCreate", ["users": [["localId": "c"], ["localId": "d"], ["localId": "e"]]])
        }
        #expect(refusal?.name == "INVALID_ARGUMENT")
        #expect(try await bench.seen("c") == nil)
    }

    // MARK: Passwords

    private func scheme(_ name: String) throws -> (parameters: [JSONValue.Member], hash: [UInt8]) {
        let bytes = SecretBytes(Array(Self.password.utf8))
        switch name {
        case "STANDARD_SCRYPT":
            let key = try bytes.withUnsafeBytes { try KeyDerivation.scrypt($0, salt: Self.salt, n: 1024, r: 8, p: 2, count: 32) }
            return ([.init("cpuMemCost", 1024), .init("blockSize", 8), .init("parallelization", "2"), .init("dkLen", 32)], key.copy)
        case "SCRYPT":
            let (separator, signer) = (Array("sep".utf8), [UInt8](0..<64))
            let salt = Self.salt + separator
            let key = try bytes.withUnsafeBytes { try KeyDerivation.scrypt($0, salt: salt, n: 1 << 8, r: 8, p: 1, count: 32) }
            let hash = try KeyDerivation.aes256CTR(signer, key: key).copy
            return (
                [
                    .init("memoryCost", 8), .init("rounds", 8), .init("saltSeparator", Self.web(separator)),
                    .init("signerKey", Self.web(signer)),
                ],
                hash
            )
        default:
            let function: HashFunction = name == "PBKDF_SHA1" ? .sha1 : .sha256
            let key = try bytes.withUnsafeBytes { try KeyDerivation.pbkdf2(function, $0, salt: Self.salt, rounds: 1000, count: 32) }
            return ([.init("rounds", 1000)], key.copy)
        }
    }

    @Test(arguments: ["STANDARD_SCRYPT", "SCRYPT", "PBKDF2_SHA256", "PBKDF_SHA1"])
    func importedPassword_signsIn_andIsHashedAgain(algorithm: String) async throws {
        // More work than any of the imported ones.
        let ours = try #require(ScryptParameters(ln: 11, r: 8, p: 2))
        let bench = try AccountBench { $0.passwords.scrypt = ours }
        let (parameters, hash) = try scheme(algorithm)
        // Both alphabets of base64, with padding and without.
        for (id, encode) in [
            ("web", { Self.web($0) }), ("standard", { .string(Data($0).base64EncodedString()) }),
        ] as [(String, ([UInt8]) -> JSONValue)] {
            let user: JSONValue = [
                "localId": .string(id), "email": .string("\(id)@example.org"), "passwordHash": encode(hash), "salt": encode(Self.salt),
            ]
            #expect(try await bench.administrate(
                "accounts:batchCreate",
                .object(parameters + [.init("hashAlgorithm", .string(algorithm)), .init("users", [user])]))["error"] == nil)
            #expect(try await bench.seen(id)?["passwordHash"] == .string(Account.redactedHash))
            func signIn(_ password: String) async throws {
                try await bench.asClient("signInWithPassword", ["email": .string("\(id)@example.org"), "password": .string(password)])
            }
            for wrong in [Self.password.lowercased(), Self.password + " "] {
                await #expect(throws: Refusal("INVALID_PASSWORD")) { try await signIn(wrong) }
            }
            for _ in 0..<2 {
                try await signIn(Self.password)
                let stored = try await bench.service.stored { try $0.account(.id(id))?.passwordHash }
                #expect(try #require(stored).hasPrefix("$scrypt$ln=\(ours.ln),"))
            }
        }
    }

    @Test func rawPassword_signsIn() async throws {
        let bench = try AccountBench()
        try await bench.administrate(
            "accounts:batchCreate", ["users": [["localId": "a", "email": "a@example.org", "rawPassword": "correct horse"]]])
        try await bench.asClient("signInWithPassword", ["email": "a@example.org", "password": "correct horse"])
    }

    @Test(arguments: [
        ["hashAlgorithm": "HMAC_SHA256", "signerKey": "a2V5"], ["hashAlgorithm": "MD5", "rounds": 1], ["hashAlgorithm": "BCRYPT"], [:],
        ["hashAlgorithm": "STANDARD_SCRYPT", "cpuMemCost": 1000, "blockSize": 8, "parallelization": 1],
        ["hashAlgorithm": "STANDARD_SCRYPT", "cpuMemCost": 1_073_741_824, "blockSize": 8, "parallelization": 1],
        ["hashAlgorithm": "SCRYPT", "memoryCost": 8, "rounds": 8],
        ["hashAlgorithm": "SCRYPT", "memoryCost": 63, "rounds": 8, "signerKey": "a2V5"],
        ["hashAlgorithm": "PBKDF2_SHA256", "rounds": 0], ["hashAlgorithm": "PBKDF2_SHA256", "rounds": 3_000_000],
    ] as [JSONValue])
    func hashesTooFastOrTooExpensive_areRefusedAsAWhole(algorithm: JSONValue) async throws {
        let bench = try AccountBench()
        let user: JSONValue = ["localId": "a", "passwordHash": Self.web([UInt8](repeating: 1, count: 32)), "salt": Self.web(Self.salt)]
        let body = JSONValue.object(try #require(algorithm.members) + [.init("users", [["localId": "other"], user])])
        let refusal = await #expect(throws: Refusal.self) { try await bench.administrate("accounts:batchCreate", body) }
        #expect(try #require(refusal?.message).hasPrefix("INVALID_HASH_ALGORITHM : hashAlgorithm "))
        #expect(try await bench.seen("other") == nil)
    }

    @Test func hashOfNoPassword_isThatUsersError() async throws {
        let bench = try AccountBench()
        let users: [JSONValue] = [[1], [], [UInt8](repeating: 1, count: 129)].enumerated().map { i, hash in
            ["localId": .string("user-\(i)"), "passwordHash": Self.web(hash), "salt": Self.web(Self.salt)]
        }
        let answer = try await bench.administrate(
            "accounts:batchCreate",
            ["hashAlgorithm": "PBKDF2_SHA256", "rounds": 1000, "users": .array(users + [["localId": "a", "passwordHash": "*"]])])
        #expect(answer["error"]?.elements?.map { $0["index"] } == [0, 1, 2, 3])
        #expect(try await bench.administrate("accounts:query", ["returnUserInfo": false])["recordsCount"] == "0")
    }
}
