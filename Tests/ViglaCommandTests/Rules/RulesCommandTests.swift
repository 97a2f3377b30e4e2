import Foundation
import Testing
import TestSupport

/// `vigla rules check` and `vigla rules test` as CI sees them.
@Suite(.timeLimit(.minutes(30))) struct RulesCommandTests {
    private func files(_ rules: String, _ cases: String = "", _ body: (String, String) throws -> Void) throws {
        let folder = try TemporaryFolder()
        try folder.file("seed.json", #"{"a":"x"}"#)
        try body(folder.file("rules.json", rules), folder.file("cases.json", cases))
    }

    @Test func check_warns_andFailsOnlyWhenStrict() throws {
        try files(#"{"rules":{".read":true}}"#) { rules, _ in
            let plain = try Command.run("rules", "check", rules)
            #expect(plain.code == 0 && plain.output == "\(rules): ok (1 rule)\n")
            #expect(plain.error.hasPrefix("\(rules):1:19: warning: .read at the root hands out everything"))
            #expect(try Command.run("rules", "check", "--strict", rules).code == 1)
        }
    }

    @Test func check_suggests_whatWasMeant() throws {
        try files(#"{"rules":{"read":"true"}}"#) { rules, _ in
            let result = try Command.run("rules", "check", rules)
            #expect(result.code == 1 && result.error == "\(rules):1:18: Expected '{'. (did you mean '.read'?)\n")
        }
    }

    @Test func test_passes_andSaysWhatIsNotCovered() throws {
        let cases = #"{"data":"seed.json","cases":[{"as":{"uid":"u"},"read":"/a","expect":"allow"}]}"#
        try files(#"{"rules":{".read":"auth != null && data.child('a').val() == 'x'"}}"#, cases) { rules, cases in
            let result = try Command.run("rules", "test", rules, cases)
            #expect(result.code == 0)
            #expect(result.output == "\(rules):1:19: /.read: never false\n1 of 1 cases passed; 0 of 1 rules seen both ways\n")
            #expect(try Command.run("rules", "test", "--require-coverage", rules, cases).code == 1)
            #expect(try Command.run("rules", "test", "--coverage", rules, cases).output.contains("never false (true 1, not true 0)"))
        }
    }

    @Test func test_fails_withThePlaceAndTheValues() throws {
        try files(#"{"rules":{".read":"auth.uid == 'ada'"}}"#, "{\"cases\":[\n {\"read\":\"/\",\"expect\":\"allow\"}]}") { rules, cases in
            let result = try Command.run("rules", "test", rules, cases)
            #expect(result.code == 1)
            #expect(result.output.contains(
                "\(cases):2:2: FAILED: read /: expected to be allowed, was denied\n"
                    + "    No .read rule on the way to the place allowed the read.\n    \(rules):1:19: /.read => false\n"))
            #expect(result.output.contains("        auth.uid = null (1:20)\n"))
        }
    }

    @Test func test_refusesFaultyCases() throws {
        try files(#"{"rules":{}}"#, #"{"cases":[{"raed":"/"}]}"#) { rules, cases in
            let result = try Command.run("rules", "test", rules, cases)
            #expect(result.code == 1 && result.error == "\(cases):1:12: Unknown key 'raed'. Did you mean 'read'?\n")
        }
    }
}
