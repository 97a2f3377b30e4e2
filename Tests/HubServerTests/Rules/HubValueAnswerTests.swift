import HubServer
import SecurityRules
import TestHub
import Testing

/// REST answers a write with the stored value: the answer shows values that the hub filled in to callers with the read permission.
@Suite(.timeLimit(.minutes(30))) struct HubValueAnswerTests {
    @Test(arguments: [
        (#""email":{".drop":true}"#, "/u/email", #""x""#, #"{"email":"ana@example.org"}"#, #""ana@example.org""#),
        (#""role":{".default":"root.child('roles').val()"}"#, "/u", #"{"t":1}"#, "null", #"{"role":"staff","t":1}"#),
        (#"".counts":{"n":"count(votes)"}"#, "/u", #"{"t":1}"#, "null", #"{"n":2,"t":1}"#),
    ]) func answer_tellsItToReadersOnly(_ key: String, _ path: String, _ sent: String, _ before: String, _ stored: String) throws {
        for read in [false, true] {
            let rules = try RuleSet(parsing: #"{"rules":{"u":{".write":true,".read":\#(read),\#(key)}}}"#)
            let server = try TestServer { ($0.rules, $0.namespace) = (rules, "test") }
            let owner = try RESTPeer.owner(server)
            #expect(try owner.put("/.json?derive=false", #"{"u":\#(before),"roles":"staff","votes":{"a":1,"b":1}}"#).hasPrefix("200"))
            let answer = try RESTPeer(server).put("\(path).json", sent)
            #expect(answer == "200 \(read ? stored : sent)", "\(key)")
            #expect(try owner.get("\(path).json") == "200 \(stored)")
        }
    }
}
