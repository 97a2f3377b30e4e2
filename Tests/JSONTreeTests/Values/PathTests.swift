import JSONTree
import Testing

@Suite(.timeLimit(.minutes(30))) struct PathTests {
    @Test(arguments: ["/a/b", "a/b", "//a///b/", "a/b/"])
    func pathParsing_slashes_collapse(text: String) throws { #expect(try Path(parsing: text) == Path([Key("a"), Key("b")])) }

    @Test(arguments: ["", "/", "///"])
    func pathParsing_nothing_isTheRoot(text: String) throws { #expect(try Path(parsing: text).isRoot) }

    @Test func pathParsing_depth_isRefusedAbove32() throws {
        #expect(try Path(parsing: String(repeating: "/a", count: 32)).depth == 32)
        #expect(throws: PathError.tooDeep) { try Path(parsing: String(repeating: "/a", count: 33)) }
    }

    @Test(arguments: ["a.b", "$x", "a/#", "[0]", "a/]", "a/\u{1}", "a/\u{7F}"])
    func pathParsing_forbiddenCharacter_isRefused(text: String) {
        #expect { try Path(parsing: text) } throws: { if case PathError.invalidKey = $0 { true } else { false } }
    }

    @Test func pathTexts_rootAndDeep_haveBothForms() {
        #expect(Path.root.description == "/" && Path.root.relativeText == "")
        #expect(Path("a/b").description == "/a/b" && Path("a/b").relativeText == "a/b")
    }

    @Test func pathContains_placeItselfAndBelow_only() {
        let path: Path = "a/b"
        #expect(path.contains("a/b") && path.contains("a/b/c") && Path.root.contains(path))
        #expect(!path.contains("a") && !path.contains("a/c/b") && !path.contains("a/bb"))
    }
}
