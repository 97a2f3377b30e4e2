import HubEngine
import JSONTree
import Testing
import TestSupport
@testable import HubServer

/// The sign-ins of one lane, compared with a model that scans all of them.
@Suite(.timeLimit(.minutes(30))) struct SignInTests {
    private static func token(_ uid: String, _ session: String) -> String {
        func part(_ text: String) -> String {
            let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
            var (out, bits, held) = ("", 0, 0)
            for byte in text.utf8 {
                (bits, held) = ((bits << 8 | Int(byte)) & 0xFFFF, held + 8)
                while held >= 6 {
                    held -= 6
                    out.append(letters[bits >> held & 63])
                }
            }
            if held > 0 { out.append(letters[bits << (6 - held) & 63]) }
            return out
        }
        return "\(part(#"{"alg":"RS256"}"#)).\(part(#"{"sub":"\#(uid)","sid":"\#(session)"}"#)).c2ln"
    }

    @Test func anyOrderOfBeginsEndsAndChanges_leavesWhatTheModelHas() throws {
        var random = SeededRandom(80)
        for _ in 0..<50 {
            var signIns = SignIns()
            var model: [SignIn] = []
            for _ in 0..<200 {
                switch Int.random(in: 0..<4, using: &random) {
                case 0, 1:
                    let begun = signIns.begin(
                        Self.token("u\(Int.random(in: 0..<5, using: &random))", "s\(Int.random(in: 0..<3, using: &random))"), of: nil)
                    model.append(try #require(begun))
                case 2:
                    guard let index = model.indices.randomElement(using: &random) else { continue }
                    let signIn = model.remove(at: index)
                    signIns.end(signIn)
                    signIns.end(signIn)
                default:
                    let uid = "u\(Int.random(in: 0..<5, using: &random))"
                    let session = Bool.random(using: &random) ? "s\(Int.random(in: 0..<3, using: &random))" : nil
                    let before = model.filter(\.isRevoked).map(ObjectIdentifier.init)
                    let author = Bool.random(using: &random) ? "s1" : nil
                    let holders = signIns.revoke(uid: uid, of: nil, session: session, author: author)
                    #expect(holders.revoked.isEmpty && holders.expireAfterLeeway.isEmpty, "nobody acts as them yet")
                    for signIn in model {
                        let isConcerned = signIn.uid == uid && (session == nil || signIn.session == session)
                        let isAuthor = author != nil && signIn.session == author
                        #expect(signIn.isRevoked == (isConcerned && !isAuthor || before.contains(ObjectIdentifier(signIn))))
                        if isConcerned, isAuthor { #expect(signIn.isExpiring) }
                    }
                }
                #expect(signIns.count == model.count)
            }
            for signIn in model {
                let settled = signIns.settle(signIn, .success(.anonymous))
                #expect((settled == .success(.anonymous)) == !signIn.isRevoked)
                signIns.end(signIn)
            }
            #expect(signIns.count == 0)
        }
    }

    @Test func credentialsThatNameNoUser_areNoSignIns() {
        var signIns = SignIns()
        for credential in ["", "owner", "a.b", "a.b.c", String(repeating: "x", count: 40), "..", "e30.e30.", "e30.WzFd.x"] {
            let begun = signIns.begin(credential, of: nil)
            #expect(begun == nil, "\(credential)")
        }
        #expect(signIns.count == 0)
    }

    @Test func failedCheck_leavesNothing() throws {
        var signIns = SignIns()
        let begun = signIns.begin(Self.token("ana", "s"), of: nil)
        let signIn: SignIn = try #require(begun)
        let settled = signIns.settle(signIn, .failure(Credentials.badToken))
        #expect(settled == .failure(Credentials.badToken))
        #expect(signIns.count == 0)
    }
}
