import HubServer
import TestHub
import Testing

/// `/.settings/…` and `/.inspect/…`: one table of routes, for administrators.
@Suite(.timeLimit(.minutes(30))) struct AdministrationTests {
    /// RFC 9110 §15.5.6: the answer says which methods the path takes.
    @Test func otherMethods_areRefused_withThoseThatThePathTakes() throws {
        let server = try TestServer()
        let owner = try RESTPeer.owner(server)
        for (path, allowed) in [
            (".settings/rules", "GET, HEAD, PUT"), (".settings/checkRules", "POST"), (".settings/formerRules", "GET, HEAD"),
            (".settings/explain", "POST"), (".settings/testRules", "POST"), (".settings/refusals", "GET, HEAD"),
            (".settings/derived", "GET, HEAD"), (".settings/defaultWriteSizeLimit", "GET, HEAD, PUT"),
            (".settings/strictTriggerValidation", "GET, HEAD, PUT"), (".settings/functionTriggers", "PUT, POST"),
            (".settings/secrets", "GET, HEAD, POST"), (".settings/secrets/x", "DELETE"), (".inspect/databases", "GET, HEAD"),
            (".inspect/cluster", "GET, HEAD"), (".inspect/log", "GET, HEAD"),
        ] {
            let answer = try owner.ask("PATCH", "/\(path).json", "{}")
            #expect(answer.status == 405 && answer.field("Allow") == allowed, "\(path): \(answer.head)")
            #expect(try RESTPeer(server).ask("PATCH", "/\(path).json", "{}").status == 401, "\(path)")
        }
        #expect(try owner.refusal("PATCH", "/.settings/rules.json", "{}") == "405 Method PATCH is not supported here.")
        #expect(try owner.refusal("GET", "/.settings/rules/x.json") == "404 There is no /.settings/rules/x.")
    }

    @Test func otherEndpoints_nameTheirMethodsToo() throws {
        let peer = try RESTPeer(try TestServer())
        #expect(try peer.ask("PUT", "/.lp").field("Allow") == "GET")
        #expect(try peer.ask("PUT", "/.console/").field("Allow") == "GET, HEAD")
        #expect(try peer.ask("PUT", "/a", "1").field("Allow") == "")
        #expect(try peer.ask("PUT", "/", "1").field("Allow") == "GET, HEAD")
        #expect(try peer.ask("BREW", "/a.json", "1").field("Allow") == "GET, PUT, PATCH, POST, DELETE, HEAD, OPTIONS")
    }

    @Test func bodies_areChecked_beforeAnythingChanges() throws {
        let owner = try RESTPeer.owner(try TestServer())
        for body in ["", "{", "1", #"{"name":1}"#] {
            #expect(try owner.refusal("POST", "/.settings/secrets.json", body).hasPrefix("400 Expected an object such as"), "\(body)")
        }
        for body in ["", "{", "1", "{}", #"{"cases":1}"#] {
            #expect(try owner.refusal("POST", "/.settings/testRules.json", body).hasPrefix("400 Expected an object with"), "\(body)")
        }
        #expect(try owner.get("/.settings/secrets.json") == "200 {\"secrets\":[]}\n")
    }
}
