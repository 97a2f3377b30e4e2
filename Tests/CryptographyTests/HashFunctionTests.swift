import Glibc
import Testing

@testable import Cryptography

struct HashFunctionTests {
    /// FIPS 180-4's examples (NIST CAVP "Example Algorithms"), and the empty text.
    @Test(arguments: [
        (HashFunction.sha1, "", "da39a3ee 5e6b4b0d 3255bfef 95601890 afd80709"),
        (.sha1, "abc", "a9993e36 4706816a ba3e2571 7850c26c 9cd0d89d"),
        (.sha1, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "84983e44 1c3bd26e baae4aa1 f95129e5 e54670f1"),
        (.sha256, "", "e3b0c442 98fc1c14 9afbf4c8 996fb924 27ae41e4 649b934c a495991b 7852b855"),
        (.sha256, "abc", "ba7816bf 8f01cfea 414140de 5dae2223 b00361a3 96177a9c b410ff61 f20015ad"),
        (
            .sha256, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61 d20638b8 e5c02693 0c3e6039 a33ce459 64ff2167 f6ecedd4 19db06c1"
        ),
        (
            .sha512, "",
            """
            cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce
            47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e
            """
        ),
        (
            .sha512, "abc",
            """
            ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a
            2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f
            """
        ),
        (
            .sha512,
            "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
            """
            8e959b75dae313da8cf4f72814fc143f8f7779c6eb9f7fa17299aeadb6889018
            501d289e4900f7e4331b99dec4b5433ac7d329eeb6dd26545e96e55b874be909
            """
        ),
    ])
    func hash_isTheStandards(function: HashFunction, text: String, hash: String) {
        #expect(function.hash(text.utf8) == hex(hash))
        #expect(function.hash(Array(text.utf8)) == hex(hash))
        // A sequence without contiguous storage.
        #expect(function.hash(text.utf8.lazy.map { $0 ^ 0 }) == hex(hash))
    }

    /// FIPS 180-4's long example: more than any buffer of the library.
    @Test func hash_isTheStandards_ofAMillionLetters() {
        let text = [UInt8](repeating: 0x61, count: 1_000_000)
        #expect(HashFunction.sha1.hash(text) == hex("34aa973c d4c4daa4 f61eeb2b dbad2731 6534016f"))
        #expect(HashFunction.sha256.hash(text) == hex("cdc76e5c 9914fb92 81a1c7e2 84d73e67 f1809a48 a497200e 046d39cc c7112cd0"))
        #expect(
            HashFunction.sha512.hash(text)
                == hex(
                    """
                    e718483d0ce769644e2e42c7bc15b4638e1f98b13b2044285632a803afa973eb
                    de0ff244877ea60a4cb0432ce577c31beb009c5c2c49aa2e4eadb217ad8cc09b
                    """
                ))
    }

    /// Each thread keeps its hash context: in any order, each hash is of its own text only.
    @Test func hash_isOfItsTextAlone_whenThreadsHashInTurn() async {
        let expected = HashFunction.allCases.map { function in (0..<50).map { function.hash([UInt8](repeating: 7, count: $0)) } }
        await withTaskGroup(of: Bool.self) { group in
            for task in 0..<16 {
                group.addTask {
                    (0..<2_000).allSatisfy { step in
                        let (function, count) = ((step + task) % 3, step * 31 % 50)
                        return HashFunction.allCases[function].hash([UInt8](repeating: 7, count: count)) == expected[function][count]
                    }
                }
            }
            for await isRight in group { #expect(isRight) }
        }
    }

    /// A thread's context is freed with it.
    @Test func hash_isTheSame_onThreadsThatEnd() {
        for _ in 0..<20 {
            var thread = pthread_t()
            let body: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { _ in
                #expect(HashFunction.sha1.hash("abc".utf8) == hex("a9993e36 4706816a ba3e2571 7850c26c 9cd0d89d"))
                return nil
            }
            #expect(pthread_create(&thread, nil, body, nil) == 0)
            pthread_join(thread, nil)
        }
    }

    /// RFC 4231 §4.2 to 4.8, except the truncated one (§4.6).
    @Test(arguments: [
        (
            [UInt8](repeating: 0x0b, count: 20), Array("Hi There".utf8), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            """
            87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cde
            daa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854
            """
        ),
        (
            Array("Jefe".utf8), Array("what do ya want for nothing?".utf8),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            """
            164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554
            9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737
            """
        ),
        (
            [UInt8](repeating: 0xaa, count: 20), [UInt8](repeating: 0xdd, count: 50),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
            """
            fa73b0089d56a284efb0f0756c890be9b1b5dbdd8ee81a3655f83e33b2279d39
            bf3e848279a722c806b485a47e67c807b946a337bee8942674278859e13292fb
            """
        ),
        (
            Array(1...25), [UInt8](repeating: 0xcd, count: 50), "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
            """
            b0ba465637458c6990e5a8c5f61d4af7e576d97ff94b872de76f8050361ee3db
            a91ca5c11aa25eb4d679275cc5788063a5f19741120c4f2de2adebeb10a298dd
            """
        ),
        (
            [UInt8](repeating: 0xaa, count: 131), Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            """
            80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f352
            6b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598
            """
        ),
        (
            [UInt8](repeating: 0xaa, count: 131),
            Array(
                """
                This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed \
                before being used by the HMAC algorithm.
                """.utf8), "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
            """
            e37b6a775dc87dbaa4dfa9f96e5e3ffddebd71f8867289865df5a32d20cdc944
            b6022cac3c4982b10d5eeb55c3e4de15134676fb6de0446065c97440fa8c6a58
            """
        ),
    ] as [([UInt8], [UInt8], String, String)])
    func authenticationCode_isTheStandards(key: [UInt8], text: [UInt8], sha256: String, sha512: String) {
        #expect(HashFunction.sha256.authenticationCode(of: text, key: SecretBytes(key)).copy == hex(sha256))
        #expect(HashFunction.sha512.authenticationCode(of: text, key: SecretBytes(key)).copy == hex(sha512))
    }

    @Test func authenticationCode_isDefined_ofNothingWithAnEmptyKey() {
        let code = HashFunction.sha256.authenticationCode(of: [], key: SecretBytes([]))
        #expect(code.copy == hex("b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"))
    }
}
