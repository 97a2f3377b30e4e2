import JSONTree
import LiveQueries
import Testing

/// The text form of a `near`, and its JSON.
@Suite(.timeLimit(.minutes(30))) struct NearTextTests {
    @Test(arguments: [
        ("37.975,23.735,1000", #"{"lat":37.975,"lng":23.735,"radius":1000}"#),
        (" 37.975 , -23.735 , 0.5 , 20 ", #"{"lat":37.975,"lng":-23.735,"radius":0.5,"limit":20}"#),
        ("-90,0,,20", #"{"lat":-90,"lng":0,"limit":20}"#), ("1,2, ,3", #"{"lat":1,"lng":2,"limit":3}"#), ("1,2", #"{"lat":1,"lng":2}"#),
        ("1e1,2,3e3", #"{"lat":10,"lng":2,"radius":3000}"#), (#" {"lng":2,"lat":1} "#, #"{"lat":1,"lng":2}"#),
    ]) func text_isReadAsItsJSON(_ text: String, _ json: String) throws {
        let near = try NearQuery(text: text)
        #expect(try near == NearQuery(JSONValue(Array(json.utf8))))
        #expect(near.json.json == json)
    }

    @Test(arguments: [
        ("", "near"), ("1", "near"), ("1,2,3,4,5", "near"), ("1,x,3", "near"), ("1,2,\"3\"", "near"), ("1,2,NaN", "near"), (",2,3", "near"),
        ("1,,3", "near"), ("1,2,0", "near.radius"), ("1,2,3,0", "near.limit"), ("1,2,3,1.5", "near.limit"), ("1,181,3", "near.lng"),
        ("{", "near"), ("{}", "near"), (String(repeating: "1", count: 1025), "near"),
    ]) func otherTexts_areRefused(_ text: String, _ member: String) {
        do throws(QueryFault) {
            _ = try NearQuery(text: text)
            Issue.record("accepted: \(text)")
        } catch { #expect(error.member == member) }
    }
}
