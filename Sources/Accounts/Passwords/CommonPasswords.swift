/// What is tried first: the commonest passwords of published leaks, and their Greek kin, in lower case. Short on purpose: it
/// stops the guesses that an online attacker has time for, which throttling leaves few of.
enum CommonPasswords {
    static let all = Set("""
        123456 1234567 12345678 123456789 1234567890 password password1 password12 password123 password1234 passw0rd p@ssw0rd
        p@ssword pa$$word pa55word qwerty qwerty1 qwerty12 qwerty123 qwerty1234 qwertyuiop qwertyui qwer1234 1q2w3e4r
        1q2w3e4r5t 1qaz2wsx 1qazxsw2 zaq12wsx zaq1zaq1 qazwsx qazwsxedc asdfgh asdfghjkl asdf1234 asdfasdf zxcvbnm zxcvbn
        azerty azertyuiop abc123 abcd1234 abc12345 abcdefg abcdef abcdefgh a1b2c3d4 aa123456 a123456 a12345678 123abc 123123
        123123123 12341234 121212 123321 654321 87654321 987654321 9876543210 112233 11223344 111222 101010 666666 696969
        159753 147258369 123654 789456 789456123 741852963 456789 102030 010203 iloveyou iloveyou1 ilovegod loveyou lovely
        letmein letmein1 welcome welcome1 welcome123 admin1 admin123 admin1234 administrator changeme changeit default secret
        secret1 secret123 master master1 monkey dragon shadow sunshine sunshine1 princess princess1 football football1
        baseball basketball superman batman spiderman starwars trustno1 whatever freedom michael jordan jordan23 jennifer
        jessica ashley daniel charlie andrew thomas robert matthew joshua hunter hunter2 killer pepper ginger buster cookie
        chocolate cheese computer internet samsung google facebook linkedin twitter pokemon naruto minecraft fuckyou fuckyou1
        asshole passwort passwort1 hallo123 schatz motdepasse soleil bonjour doudou contrasena contraseña hola1234 senha123
        qwertz qwertz123 kalimera kodikos κωδικός κωδικος 123qwe 123qweasd qweasd qweasdzxc qwe123 q1w2e3r4 q1w2e3r4t5
        1a2b3c4d 1234qwer 12qwaszx zxcvbnm1 asdfghjk asdfghj testtest test1234 test123 testing testing1 hello123 helloworld
        hellohello summer summer1 winter winter1 spring autumn liverpool chelsea arsenal barcelona realmadrid olympiakos
        olympiacos panathinaikos aek1924 paok1926 gate13 thyra7 juventus manchester flower flowers purple orange banana jesus1
        jesuschrist blessed heaven angel1 babygirl lovers forever family mother father love123 lovelove mustang corvette
        ferrari porsche mercedes harley yamaha nicole hannah amanda samantha sophie maria123 giorgos dimitris kostas katerina
        ioanna access access14 login123 user123 user1234 mypassword mypass newpassword oldpassword temp1234 temporary p455w0rd
        superuser supersecret topsecret nopassword blank00 pass1234 pass123 password! password1! password123! qwerty123!
        welcome1! admin@123 p@ssw0rd1 p@ssw0rd123 1234abcd abcd123 abcabc abc123456 zaqwsx qwaszx 1qaz2wsx3edc !qaz2wsx
        qwerty1! letmein! iloveu iloveyou2
        """.split(whereSeparator: \.isWhitespace).map(String.init))
}
