import Foundation
import Testing
import TestSupport

/// `vigla rules explain --list`: the sentences of a file, and of a running hub.
@Suite(.timeLimit(.minutes(30))) struct RulesListTests {
    private static let rules = #"{"rules":{"a":{".read":"auth != null","$b":{".write":"auth.uid == $b"}},"d":{}}}"#
    private static let below = """
        /a/$b
          Read by everybody who is signed in, because of /a.
          Written by the user whose id is $b.

        """

    @Test func file_isToldPlaceByPlace() throws {
        let folder = try TemporaryFolder()
        let file = try folder.file("rules.json", Self.rules)
        let told = try Command.run("rules", "explain", "--list", file)
        #expect(told.code == 0 && told.error.isEmpty)
        #expect(told.output == """
            /
              Nobody reads or writes it as a whole.
            /a
              Read by everybody who is signed in.
              Nobody writes it as a whole.
            \(Self.below)/d
              Nobody reads or writes it.

            """)
        let json = try Command.run("rules", "explain", "--list", "--json", file).output
        #expect(json.hasPrefix(#"[{"place":"/","sentences":[{"kind":"read","text":"Nobody reads it as a whole."}"#))
        #expect(json.hasSuffix("]\n"))
    }

    @Test func faultyFile_andMisplacedOptions_areRefused() throws {
        let folder = try TemporaryFolder()
        let faulty = try folder.file("faulty.json", #"{"rules":{".read":"dta"}}"#)
        let refused = try Command.run("rules", "explain", "--list", faulty)
        #expect(refused.code == 1 && refused.error.hasPrefix("\(faulty):1:20: Unknown variable 'dta'."), "\(refused.error)")
        let missing = try Command.run("rules", "explain", "--list", folder.path + "/none.json")
        #expect(missing.code == 1 && missing.error.contains("none.json: "))
        let options = try Command.run("rules", "explain", "--list", faulty, "--as", "ada")
        #expect(options.code == 64 && options.error.contains("leave out the other options"))
        let place = try Command.run("rules", "explain", faulty)
        #expect(place.code == 64 && place.error.contains("rules explain --list \(faulty)"), "\(place.error)")
    }

    @Test func hub_tellsTheRulesInForce_toAnAdministrator() throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", Self.rules)
        let hub = try RunningHub(["--port", "0", "--memory", "--dev", "--rules", rules], folder: folder)
        let all = try Command.run("rules", "explain", "--list", hub.url, "--auth", "owner")
        let ofFile = try Command.run("rules", "explain", "--list", rules).output
        #expect(all.code == 0 && all.output == ofFile)
        let address = String(hub.url.dropFirst("http://".count))
        #expect(try Command.run("rules", "explain", "--list", address + "/a/x", "--auth", "owner").output == Self.below)
        #expect(try Command.run("rules", "explain", "--list", hub.url).code == 1, "takes an administrator")
    }
}
