// A hub's journal that writes numbers until it is stopped or refused. Prints `ready EPOCH`, `ack N` for each durable number, and `refused WHY`.
//
//     cluster-writer FOLDER CLUSTER NAMESPACE BYTES URL,URL…

import ClusterJournal
import Dispatch
import Foundation
import Journal
import JSONTree
import Logging
import Scheduling
import SQLiteJournal

func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

let words = CommandLine.arguments
guard words.count == 6, let bytes = Int(words[4]) else { exit(2) }
var settings = ClusterSettings(name: words[2])
settings.shards = 1
let scheduler = Scheduler.system()
let logger = Logger(label: "cluster-writer") { _ in SwiftLogNoOpLogHandler() }
let store = try JournalStore.open(folder: words[1], scheduler: scheduler)
let servers = words[5].split(separator: ",").map(String.init)
let connection = try NatsConnection(NatsConnection.Settings(servers: servers), logger: logger)
let storage = try ClusterStorage(settings, over: connection, in: store, scheduler: scheduler, logger: logger)
let opened = try storage.openToWrite(words[3], patienceMs: 60_000)
say("ready \(opened.epoch)")

// Ends with the process that started it.
Thread { while !FileHandle.standardInput.availableData.isEmpty {}; exit(0) }.start()

var last = opened.recovered.sequence
let text = String(repeating: "x", count: bytes)
while true {
    let operations: [JournalOperation] = [.set("n", .int(Int64(last + 1))), .set("text", .string(Text(text)))]
    let batch = JournalBatch(sequence: last + 1, after: last, operations: operations, id: last + 1, epoch: opened.epoch)
    let done = DispatchSemaphore(value: 0)
    nonisolated(unsafe) var result = Result<Void, JournalError>.success(())
    opened.journal.append(batch) {
        result = $0
        done.signal()
    }
    done.wait()
    switch result {
    case .success:
        last += 1
        say("ack \(last)")
    case .failure(let error):
        say("refused \(error)")
        exit(3)
    }
}
