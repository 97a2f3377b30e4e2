import Foundation
import Testing
import TestSupport

#if VIGLA_CLUSTER
import TestCluster

/// Hubs as they are started, with what one writes on all of them.
@Suite(.timeLimit(.minutes(30)), .enabled(if: TestCluster.program != nil, "\(TestCluster.absent)")) struct ClusterTests {
    private let arguments: [String]

    init() throws {
        let servers = try TestCluster.shared.get().urls.joined(separator: ",")
        arguments = ["--dev", "--port", "0", "--cluster", servers, "--cluster-name", "command\(UInt32.random(in: 1 ... .max))"]
    }

    private func set(_ hub: RunningHub, _ path: String, _ json: String) throws -> Command.Result {
        try Command.run("set", hub.url + path, json)
    }

    private func value(_ hub: RunningHub, _ path: String) throws -> String {
        try Command.run("get", hub.url + path).output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    @Test func follower_answersReadsAndObservers_andRefusesWritesNamingTheWriter() throws {
        let writer = try RunningHub(arguments)
        let follower = try RunningHub(arguments + ["--cluster-writer", writer.url])
        #expect(try set(writer, "/a", #"{"x":1}"#).code == 0)
        #expect(try becomes { try value(follower, "/a/x") == "1" })
        let refused = try set(follower, "/a", "2")
        #expect(refused.code != 0)
        #expect(refused.error.contains("This server follows \(writer.url), which takes the writes"), "\(refused)")
        // An observer at the follower hears of the writer's next commit.
        let heard = Handover<Command.Result>()
        let url = follower.url
        Thread {
            if let result = try? Command.run("watch", url + "/a", "--events", "added", "--count", "2") { heard.put(result) }
        }.start()
        #expect(try becomes { try follower.page("/.metrics").contains("vigla_observers{namespace=\"default\"} 1") })
        #expect(try set(writer, "/a/y", #""new""#).code == 0)
        let told = heard.wait()
        #expect(told.code == 0 && told.output.contains("new"), "\(told)")
        #expect(try value(writer, "/a") == value(follower, "/a"))
        #expect(follower.stop() == 0 && writer.stop() == 0)
    }

    @Test func hubs_thatAreKilled_comeBackWithAllThatWasAcknowledged() throws {
        var writer = try RunningHub(arguments)
        var follower = try RunningHub(arguments + ["--cluster-writer", writer.url])
        for i in 1...10 { #expect(try set(writer, "/n/k\(i)", "\(i)").code == 0) }
        let (written, followed) = (writer.folder, follower.folder)
        _ = writer.stop(SIGKILL)
        // Reads go on.
        #expect(try becomes { try value(follower, "/n/k10") == "10" })
        writer = try RunningHub(arguments, folder: written)
        #expect(try value(writer, "/n/k10") == "10")
        _ = follower.stop(SIGKILL)
        #expect(try set(writer, "/n/k11", "11").code == 0)
        follower = try RunningHub(arguments + ["--cluster-writer", writer.url], folder: followed)
        #expect(try becomes { try value(follower, "/n/k11") == "11" })
        // A writer of an empty folder has all of it as well: the one before takes no more.
        let other = try RunningHub(arguments)
        #expect(try value(other, "/n") == value(writer, "/n"))
        #expect(try set(other, "/n/k12", "12").code == 0)
        #expect(try becomes { try value(follower, "/n/k12") == "12" })
        let fenced = try set(writer, "/n/k13", "13")
        #expect(fenced.code != 0 && fenced.error.contains("Another server writes this database by now"), "\(fenced)")
        #expect(try value(other, "/n/k13") == "null")
    }
}
#endif

@Suite(.timeLimit(.minutes(30))) struct ClusterOptionTests {
    @Test func faultyOptions_areReported() throws {
        let folder = try TemporaryFolder()
        let alone = try Command.run("serve", "--cluster-name", "a b", "--cluster-writer", "x", in: folder.url)
        #expect(alone.code == 78)
        for text in ["--cluster-name: \"a b\" is not 1–32 letters", "--cluster-writer: there is no --cluster"] {
            #expect(alone.error.contains(text), "\(alone.error)")
        }
        let memory = try Command.run("serve", "--memory", "--cluster", "http://x", in: folder.url)
        #expect(memory.code == 78 && memory.error.contains("is not addresses nats://host:port"))
        #if VIGLA_CLUSTER
        #expect(memory.error.contains("keeps its data in a folder"))
        #else
        #expect(memory.error.contains("libnats-dev"))
        #endif
    }

    @Test func secretsOfTheServers_areNotShown() throws {
        let folder = try TemporaryFolder()
        for text in ["nats://hub:se:cret@one,nats://token-secret@two:4222", "http://hub:secret@one"] {
            let shown = try Command.run("serve", "--cluster", text, "--print-config", in: folder.url)
            #expect((shown.output + shown.error).contains("://…@one") && !(shown.output + shown.error).contains("cret"), "\(shown)")
        }
    }
}
