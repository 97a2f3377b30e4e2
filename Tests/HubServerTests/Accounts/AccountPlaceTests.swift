import JSONTree
import Testing
@testable import HubServer

/// Places of accounts, as configuration names them.
@Suite(.timeLimit(.minutes(30))) struct AccountPlaceTests {
    private func place(_ text: String) throws -> AccountPlace { try AccountPlace(parsing: text) }

    @Test func place_isThatOfItsAccount() throws {
        #expect(try place("/users/$uid").path(of: "ana") == "users/ana")
        #expect(try place("by/$uid/of/$uid/").path(of: "ana")?.description == "/by/ana/of/ana")
        #expect(try place("/users/$uid").description == "/users/$uid")
    }

    /// Custom tokens may have any user id; an id that is not a valid key has no place, least of all another user's.
    @Test func idThatIsNoKey_hasNoPlace() throws {
        for id in ["", "a/b", "../bo", "a.b", "$x", "a#", "[", "]", "a\u{0}", String(repeating: "x", count: 769)] {
            #expect(try place("/users/$uid").path(of: id) == nil, "\(id)")
        }
        #expect(try place("/users/$uid").path(of: String(repeating: "x", count: 768)) != nil)
    }

    @Test func textsThatAreNoPlace_areRefused() throws {
        for text in [
            "", "/", "/users", "/users/uid", "/users/x$uid", "/$uid/a.b", "/$uid/$other",
            "/" + Array(repeating: "$uid", count: 33).joined(separator: "/"),
        ] {
            #expect(throws: AccountPlace.Fault.self, "\(text)") { try AccountPlace(parsing: text) }
        }
        #expect(throws: Never.self) { try AccountPlace(parsing: Array(repeating: "$uid", count: 32).joined(separator: "/")) }
    }

    @Test func overlap_isWithinOneAnother_forSomeAccount() throws {
        for (a, b, overlaps) in [
            ("/users/$uid", "/users/$uid", true), ("/users/$uid", "/users/$uid/private", true), ("/$uid", "/users/$uid", true),
            ("/users/$uid", "/presence/$uid", false),
            ("/a/$uid/x", "/a/$uid/y", false), ("/a/$uid/x", "/a/b/$uid", true),
        ] {
            #expect(try place(a).overlaps(place(b)) == overlaps && place(b).overlaps(place(a)) == overlaps, "\(a) \(b)")
        }
    }
}
