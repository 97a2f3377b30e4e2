import ArgumentParser

/// The options of `vigla serve` about accounts. Structured settings, and those set once for an app, are in the file.
struct AccountOptions: ParsableArguments {
    @Option(help: ArgumentHelp(
        "Settings of accounts: a JSON file (docs/accounts.md), or off for no accounts. Default: accounts as that page describes them.",
        valueName: "file|off"))
    var accounts: String?
    @Option(
        help: ArgumentHelp("The apps' projectId, which their tokens are made for. Default: that of --namespace.", valueName: "name")
    ) var project: String?
    @Option(
        help: ArgumentHelp("Where users reach the hub: mailed links begin with it. Default: the address it listens on.", valueName: "url"))
    var publicURL: String?
    @Option(
        help: ArgumentHelp(
            "Places that go with an account, such as '/users/$uid,/presence/$uid'. Will go: the rules' .account says more.",
            valueName: "paths")
    ) var onAccountDeletion: String?
    @Option(help: ArgumentHelp(
        "Mail server: smtps://host, or smtp://host with STARTTLS. Without one no mail is sent; with --dev it is printed.",
        valueName: "url"))
    var smtpURL: String?
    @Option(help: ArgumentHelp("User at the mail server.", valueName: "name")) var smtpUser: String?
    @Option(help: ArgumentHelp("File whose first line is that user's password.", valueName: "file")) var smtpPasswordFile: String?
    @Option(help: ArgumentHelp("Sender of mails, such as 'App <app@example.org>'.", valueName: "address")) var mailFrom: String?

    var given: [ServeOption: String?] {
        [
            .accounts: accounts, .project: project, .publicURL: publicURL, .onAccountDeletion: onAccountDeletion, .smtpURL: smtpURL,
            .smtpUser: smtpUser,
            .smtpPasswordFile: smtpPasswordFile, .mailFrom: mailFrom,
        ]
    }
}
