@testable import HubServer
import JSONTree
import Logging
import TestHub
import Testing

/// `GET /.inspect/log.json`: the last lines of the log, for administrators from any address.
@Suite(.timeLimit(.minutes(30))) struct RecentLogTests {
    private func log(_ most: Int = 3) -> (log: RecentLog, logger: Logger) {
        let log = RecentLog(most: most) { 7 }
        return (log, Logger(label: "test") { _ in log.handler(.trace) })
    }

    private func texts(_ log: RecentLog, after: Int = 0) throws -> [Node] {
        let answer = try Node(json: String(decoding: log.json(after: after), as: UTF8.self))
        return answer.child("lines").children.map { $0.1.child("text") }
    }

    @Test func lastLines_areKept_fromInfoOn() throws {
        let (log, logger) = log()
        logger.debug("unseen")
        for i in 1...4 { logger.notice("line", metadata: ["n": "\(i)"]) }
        #expect(try texts(log) == ["line n=2", "line n=3", "line n=4"])
        #expect(try texts(log, after: 3) == ["line n=4"])
        #expect(String(decoding: log.json(after: 3), as: UTF8.self)
            == "{\"latest\":4,\"lines\":[{\"number\":4,\"at\":7,\"level\":\"notice\",\"text\":\"line n=4\"}]}\n")
        let (none, silent) = self.log(0)
        silent.notice("line")
        #expect(try texts(none).isEmpty)
    }

    @Test func valuesAndLinks_areNotKept_andLongLinesAreCut() throws {
        let (log, logger) = log()
        logger.notice("refused by the rules", metadata: ["path": "/a", "rules": "auth.uid = \"ada\""])
        logger.notice("mail to ada@example.org, passwordReset: http://hub/.account/action?oobCode=x")
        logger.notice("long", metadata: ["text": "\(String(repeating: "é", count: RecentLog.lineBytes))"])
        let kept = try texts(log)
        #expect(kept.count == 2 && kept[0] == "refused by the rules path=/a")
        guard case .string(let long) = kept[1] else { return #expect(Bool(false), "no text") }
        #expect(long.string.utf8.count <= RecentLog.lineBytes + 6 && long.string.hasSuffix("…"))
    }

    @Test func lines_areForAdministrators() throws {
        let (log, logger) = log()
        let server = try TestServer { $0.recentLog = log }
        logger.notice("one")
        let (stranger, owner) = (try RESTPeer(server), try RESTPeer.owner(server))
        #expect(try stranger.get("/.inspect/log.json").hasPrefix("401"))
        #expect(try owner.get("/.inspect/log.json").contains("\"text\":\"one\""))
        #expect(try owner.line("PUT", "/.inspect/log.json", "1").hasPrefix("405"))
        let silent = try TestServer()
        #expect(try RESTPeer.owner(silent).get("/.inspect/log.json").hasPrefix("404"))
    }
}
