import Foundation
import TestSupport
import Testing

/// Pending rows of a commit are written once, whenever the hub is killed.
@Suite(.timeLimit(.minutes(30))) struct InboxCrashTests {
    private static let rules = #"""
        {"rules":{".read":true,".write":true,
          "news":{"$k":{".inbox":{"to":"inbox/$u/$k","each":"subs/$u","any":"'all'","value":"newData.val()"}}}}}
        """#

    private func keys(_ hub: RunningHub, _ place: String) throws -> Set<String> {
        let output = try Command.run("get", hub.url + place, "--shallow").output
        let object = try JSONSerialization.jsonObject(with: Data(output.utf8), options: .fragmentsAllowed) as? [String: Any]
        return Set((object ?? [:]).keys)
    }

    /// In the end every subscriber has one row, except users that removed theirs. Also after a deploy of other rules.
    @Test(arguments: [false, true]) func killedHub_tellsEachOnce(changesRules: Bool) async throws {
        let folder = try TemporaryFolder()
        _ = try folder.file("rules.json", Self.rules)
        func start() throws -> RunningHub {
            try RunningHub(["--port", "0", "--data", "data", "--rules", "rules.json", "--dev"], folder: folder)
        }
        var hub = try start()
        let most = 30_000
        let subs = (0..<most).map { "\"user\($0)\":{\"all\":true}" }.joined(separator: ",")
        _ = try folder.file("subs.json", "{\(subs)}")
        #expect(try Command.run("import", hub.url + "/subs", "subs.json", in: folder.url).code == 0)
        #expect(try Command.run("set", hub.url + "/news/n", "\"hello\"").code == 0)
        if changesRules { _ = try folder.file("rules.json", #"{"rules":{".read":true,".write":true}}"#) }
        var (removed, seen): (Set<String>, [Int]) = ([], [])
        for pause in [0, 30, 120, 250] {
            try await Task.sleep(for: .milliseconds(pause))
            #expect(hub.stop(SIGKILL) == SIGKILL)
            hub = try start()
            let made = try keys(hub, "/inbox").subtracting(removed)
            seen.append(made.count)
            // A row that a user has removed is not written again.
            for key in made.sorted().suffix(3) + made.sorted().prefix(2) {
                #expect(try Command.run("remove", hub.url + "/inbox/\(key)").code == 0)
                removed.insert(key)
            }
        }
        let end = Date(timeIntervalSinceNow: 60)
        var made: Set<String> = []
        repeat {
            try await Task.sleep(for: .milliseconds(100))
            made = try keys(hub, "/inbox")
        } while made.count < most - removed.count && Date() < end
        try await Task.sleep(for: .milliseconds(300))
        made = try keys(hub, "/inbox")
        #expect(made.count == most - removed.count && made.isDisjoint(with: removed), "\(made.count) rows, \(seen) at the kills")
        #expect(hub.stop() == 0)
    }
}
