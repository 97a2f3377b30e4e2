import SecurityRules
import Testing

/// What `vigla rules check` says of files that are accepted, and what it suggests for those that are not.
@Suite(.timeLimit(.minutes(30))) struct RuleWarningTests {
    struct Row: Sendable {
        let rules: String
        let warnings: [String]
        init(_ rules: String, _ warnings: String...) { (self.rules, self.warnings) = (rules, warnings) }
    }

    @Test(arguments: [
        Row(#"{"a":{".read":true}}"#),
        Row(#"{".read":true}"#, "1:19: .read at the root hands out everything"),
        Row(#"{".write":"1 == 1"}"#, "1:20: .write at the root hands out everything"),
        Row(#"{"a":{".read":false}}"#, "1:24: .read never grants"),
        Row(#"{"a":{".write":"auth != null && false"}}"#),
        Row(#"{"a":{".write":"false && auth != null"}}"#, "1:25: .write never grants"),
        Row(#"{"a":{".read":true,"b":{".read":"auth != null"}}}"#, "1:42: .read changes nothing"),
        Row(#"{"$a":{".read":"$a == 1"}}"#, "1:26: A string never equals a number"),
        Row(#"{"$a":{".read":"$a != 1"}}"#, "1:26: A string never equals a number: this is always true"),
        Row(#"{"$a":{".read":"now < $a"}}"#, "1:26: A number and a string cannot be ordered"),
        Row(#"{"$a":{".read":"auth != null"}}"#, "1:11: $a is never asked for"),
        Row(#"{"$a":{"b":{".read":"auth.uid == $a"}}}"#),
        Row(#"{"$_a":{".read":"auth != null"},"b":{"$other":{".write":"auth != null"}}}"#),
        Row(#"{"$a":{}}"#),
        Row(#"{"a":{"read":{}}}"#, "1:23: 'read' is a child of this name: did you mean '.read'?"),
        Row(#"{"a":{".read":"auth.ui == 'x'"}}"#, "1:25: auth has uid, provider and token; auth.ui is null. Did you mean 'uid'?"),
        Row(
            #"{"a":{".read":"auth.email == 'x'"}}"#,
            "1:25: auth has uid, provider and token; auth.email is null. Claims are in auth.token."),
        Row(#"{"a":{".validate":"newData.exists()"}}"#, "1:28: .validate never runs"),
        Row(#"{"a":{".validate":"newData.exists()","b":{".write":"auth != null"}}}"#),
        Row(#"{"a":{".write":"auth != null","b":{".validate":"newData.exists()"}}}"#),
        Row(#"{"a":{".indexOn":["k","k"]}}"#, #"1:27: .indexOn "k": stands there twice."#),
        Row(#"{"a":{".indexOn":".key"}}"#, #"1:27: .indexOn ".key": keys are always in order"#),
        Row(#"{"a":{".indexOn":"$k/b"}}"#, #"1:27: .indexOn "$k/b": is no path of a child"#),
        Row(#"{"a":{".indexOn":"/b/"}}"#, #"1:27: .indexOn "/b/": is better written as "b"."#),
        Row(#"{"a":{".indexOn":"name","name":{}}}"#, #"1:27: .indexOn "name": is a child of this very place"#),
        Row(#"{"a":{".indexOn":[".value",".priority","a/b"]}}"#),
    ]) func file_isWarnedOf(_ row: Row) throws {
        let text = "{\"rules\":" + row.rules + "}"
        let warnings = try RuleSet(parsing: text).warnings
        #expect(warnings.count == row.warnings.count, "\(warnings)")
        for (warning, expected) in zip(warnings, row.warnings) { #expect(warning.description.hasPrefix(expected), "\(warning)") }
    }

    @Test(arguments: [
        (#"{"a":{"read":"auth != null"}}"#, "did you mean '.read'?"), (#"{".raed":true}"#, "did you mean '.read'?"),
        (#"{".indexon":["a"]}"#, "did you mean '.indexOn'?"), (#"{".read":"dta.exists()"}"#, "did you mean 'data'?"),
        (#"{".write":"newdata.exists()"}"#, "did you mean 'newData'?"),
        (#"{"$user":{".read":"auth.uid == $usr"}}"#, "did you mean '$user'?"),
        (#"{".read":"data.exist()"}"#, "did you mean 'exists'?"), (#"{".read":"data.val().beginWith('a')"}"#, "did you mean 'beginsWith'?"),
        (#"{".read":"query.orderByChlid == 'a'"}"#, "did you mean 'orderByChild'?"),
    ]) func slip_isRefused_withASuggestion(_ rules: String, _ hint: String) {
        let errors = faults("{\"rules\":" + rules + "}")
        #expect(errors.map(\.hint) == [hint])
        #expect(!errors.contains { $0.description.contains("mean") })
    }

    @Test(arguments: ["zzzzzz.exists()", "data.frobnicate()"]) func unknownName_hasNoSuggestion_whenNothingIsNear(_ expression: String) {
        #expect(faults("{\"rules\":{\".read\":\(quoted(expression))}}").map(\.hint) == [nil])
    }
}
