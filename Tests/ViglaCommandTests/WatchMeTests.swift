import Foundation
import Testing
import TestSupport

@testable import watchme_simulation

/// The WatchMe example: the whole evening against a real hub, and that its check would notice a loss.
@Suite(.timeLimit(.minutes(30))) struct WatchMeTests {
    private static let example =
        URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../../Examples/watchme").standardizedFileURL

    @Test func simulation_seesEveryPositionInOrder_underTheRules() throws {
        let hub = try RunningHub(["--dev", "--memory", "--port", "0", "--rules", Self.example.appendingPathComponent("rules.json").path])
        let seed = try String(contentsOf: Self.example.appendingPathComponent("seed.json"), encoding: .utf8)
        #expect(try Command.run("set", hub.url + "/", "-", "--auth", "owner", input: seed).code == 0)
        let result = try Command.run(
            "--url", hub.url, "--walkers", "8", "--followers", "12", "--seconds", "3", "--tick-ms", "100", "--danger-every", "1",
            "--announce-every", "1",
            program: "watchme-simulation")
        #expect(result.code == 0, "\(result.output)\(result.error)")
        #expect(result.output.contains("Every follower saw every position, in order and once."))
        #expect(!result.output.contains("danger posts          0") && !result.output.contains("announcements         0"))
    }

    @Test func simulation_withoutDev_saysWhy() throws {
        let hub = try RunningHub(["--memory", "--port", "0", "--rules", Self.example.appendingPathComponent("rules.json").path])
        let result = try Command.run("--url", hub.url, "--seconds", "1", program: "watchme-simulation")
        #expect(result.code == 1)
        #expect(result.error.contains("--dev"))
    }

    @Test func trail_tellsExpectedSkippedAgainAndUnknown() {
        var walk = Walk(seed: 1)
        var history = History()
        for _ in 0..<6 { history.add(walk.step(seconds: 3), sentNs: 0) }
        func see(_ step: Int, _ trail: inout Trail) -> Trail.Verdict {
            let fix = history.steps[step].fix
            return trail.judge(latitude: fix.latitude, longitude: fix.longitude, history)
        }
        var trail = Trail()
        #expect(see(0, &trail) == .expected(step: 0))
        #expect(see(1, &trail) == .expected(step: 1))
        #expect(see(4, &trail) == .skipped(2, step: 4))
        #expect(see(3, &trail) == .again)
        #expect(trail.judge(latitude: 0, longitude: 0, history) == .unknown)
        #expect(see(5, &trail) == .expected(step: 5))
        #expect(trail.next == 6)
    }

    @Test func walk_keepsToWalkingPace_andItsSeed() {
        var (walk, again) = (Walk(seed: 7), Walk(seed: 7))
        var last = walk.step(seconds: 0)
        #expect(again.step(seconds: 0) == last)
        for _ in 0..<2_000 {
            let fix = walk.step(seconds: 3)
            #expect(again.step(seconds: 3) == fix)
            // Around a corner the straight line is shorter than the route.
            let metres = Athens.metres((last.latitude, last.longitude), (fix.latitude, fix.longitude))
            #expect(metres <= 1.7 * 3 + 0.5)
            #expect(fix.heading >= 0 && fix.heading <= 360 && fix != last)
            last = fix
        }
    }

    @Test func everyPlace_canBeLeftWithoutTurningBack() {
        for (place, ways) in Athens.neighbours.enumerated() { #expect(ways.count >= 2, "\(Athens.places[place].name)") }
    }
}
