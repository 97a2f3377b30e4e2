import Foundation
import TestSupport
import Testing

/// Consequences of a removal that do not fit into one commit are all removed in the end, whenever the hub is killed.
@Suite(.timeLimit(.minutes(30))) struct RemovalCrashTests {
    private static let rules = #"""
        {"rules":{".read":true,".write":true,"posts":{"$p":{".removes":"comments/$p"}},
          "comments":{"$p":{"$c":{".removes":"by/{u}/$c"}}}}}
        """#

    private func keys(_ hub: RunningHub, _ place: String) throws -> Set<String> {
        let output = try Command.run("get", hub.url + place, "--shallow").output
        let object = try JSONSerialization.jsonObject(with: Data(output.utf8), options: .fragmentsAllowed) as? [String: Any]
        return Set((object ?? [:]).keys)
    }

    /// Nothing is left, except values written since at places pending removal.
    @Test func killedHub_removesAll() async throws {
        let folder = try TemporaryFolder()
        _ = try folder.file("rules.json", Self.rules)
        func start() throws -> RunningHub {
            try RunningHub(["--port", "0", "--data", "data", "--rules", "rules.json", "--dev"], folder: folder)
        }
        var hub = try start()
        let most = 30_000
        let comments = (0..<most).map { "\"c\($0)\":{\"u\":\"eve\"}" }.joined(separator: ",")
        let marks = (0..<most).map { "\"c\($0)\":1" }.joined(separator: ",")
        _ = try folder.file("tree.json", "{\"posts\":{\"p\":1},\"comments\":{\"p\":{\(comments)}},\"by\":{\"eve\":{\(marks)}}}")
        #expect(try Command.run("import", hub.url + "/", "tree.json", in: folder.url).code == 0)
        #expect(try Command.run("remove", hub.url + "/posts/p").code == 0)
        var (kept, seen): (Set<String>, [Int]) = ([], [])
        for pause in [0, 30, 120, 250] {
            try await Task.sleep(for: .milliseconds(pause))
            #expect(hub.stop(SIGKILL) == SIGKILL)
            hub = try start()
            let left = try keys(hub, "/by/eve").subtracting(kept)
            seen.append(left.count)
            // Written before the pending removal, or again after it.
            for key in left.sorted().suffix(2) + ["c0"] where !kept.contains(key) {
                #expect(try Command.run("set", hub.url + "/by/eve/\(key)", "2").code == 0)
                kept.insert(key)
            }
        }
        let end = Date(timeIntervalSinceNow: 60)
        var left: Set<String> = []
        repeat {
            try await Task.sleep(for: .milliseconds(100))
            left = try keys(hub, "/by/eve")
        } while left.count > kept.count && Date() < end
        try await Task.sleep(for: .milliseconds(300))
        left = try keys(hub, "/by/eve")
        #expect(left == kept, "\(left.count) places, \(seen) at the kills")
        #expect(try keys(hub, "/") == ["by"])
        // The last process completed another's removals, and made no others.
        let line = try hub.page("/.metrics").split(separator: "\n").first { $0.contains("cause=\"removal\"") }
        let commits = try #require(line?.split(separator: " ").last.flatMap { Int($0.filter(\.isNumber)) })
        #expect(commits > 0 || seen.last == 0, "\(seen) at the kills")
        #expect(commits <= most / 100, "\(seen) at the kills")
        #expect(hub.stop() == 0)
    }
}
