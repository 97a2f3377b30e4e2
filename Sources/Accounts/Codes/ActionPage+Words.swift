import Mail

/// The texts of a page.
struct ActionWords: Equatable {
    var title: String
    var lines: [String]
    /// The label of the form's button, if there is a form.
    var button = ""
}

extension ActionPage {
    func words(_ language: Language) -> ActionWords {
        switch language {
        case .english: english
        case .greek: greek
        }
    }

    /// Labels of the form and of the link.
    static func labels(_ language: Language) -> (account: String, password: String, continueLink: String) {
        switch language {
        case .english: ("Account", "New password", "Continue")
        case .greek: ("Λογαριασμός", "Νέος κωδικός", "Συνέχεια")
        }
    }

    static func weakness(_ weakness: PasswordWeakness, _ language: Language) -> String {
        switch (weakness, language) {
        case (.tooShort(let least), .english): "Choose one of at least \(least) characters."
        case (.tooShort(let least), .greek): "Επιλέξτε κωδικό με τουλάχιστον \(least) χαρακτήρες."
        case (.tooLong, .english): "That is too long. Choose a shorter one."
        case (.tooLong, .greek): "Είναι πολύ μεγάλος. Επιλέξτε μικρότερο."
        case (.common, .english): "Many people use this one, so it is guessed first. Choose another."
        case (.common, .greek): "Τον χρησιμοποιούν πολλοί και μαντεύεται πρώτος. Επιλέξτε άλλον."
        }
    }

    private var english: ActionWords {
        switch self {
        case .confirm(.verifyAndChangeEmail, _, let newEmail):
            ActionWords(
                title: "Use this address?",
                lines: ["\(newEmail ?? "") becomes the address of your account. You sign in again afterwards."],
                button: "Use this address")
        case .confirm(.recoverEmail, let email, _):
            ActionWords(
                title: "Change it back?",
                lines: [
                    "\(email) becomes the address of your account again, and all devices are signed out. A link for a new password is "
                        + "mailed to you.",
                ],
                button: "Change it back")
        case .confirm(_, let email, _):
            ActionWords(
                title: "Confirm your address",
                lines: [
                    "Is \(email) your address?",
                    "If you did not make this account, do not confirm: whoever made it would keep it, under your address.",
                ],
                button: "Yes, it is mine")
        case .password:
            ActionWords(
                title: "Choose a new password",
                lines: ["All devices are signed out, and you sign in with the new one."],
                button: "Set password")
        case .signIn: ActionWords(title: "Sign in", lines: ["Go on in the app on the device on which you asked for this link."])
        case .done(.resetPassword, _): ActionWords(title: "Your password is set", lines: ["You can sign in with it now."])
        case .done(.verifyAndChangeEmail, let email):
            ActionWords(
                title: "Your address is changed",
                lines: ["From now on you sign in as \(email)."])
        case .done(.recoverEmail, let email):
            ActionWords(
                title: "Your address is back",
                lines: ["Your account is \(email) again. Choose a new password now: the link to do so is in your mail."])
        case .done(_, let email): ActionWords(title: "Thank you", lines: ["\(email) is confirmed."])
        case .failed(.used):
            ActionWords(
                title: "This link is no longer valid",
                lines: ["It was used already, or a newer one was sent to you. Look for the latest mail, or ask for a new link in the app."])
        case .failed(.expired): ActionWords(title: "This link has expired", lines: ["Ask for a new one in the app."])
        case .failed(.emailTaken):
            ActionWords(
                title: "This address is taken",
                lines: ["Another account uses it by now. Nothing was changed."])
        case .failed(.disabled): ActionWords(title: "This account is disabled", lines: ["Nothing was changed. Ask who runs this service."])
        case .failed(.tooMany):
            ActionWords(
                title: "One moment",
                lines: ["Too many links were opened from your network. Try again in a minute."])
        case .failed(.incomplete):
            ActionWords(
                title: "This link is incomplete",
                lines: ["Mail programs break long links at times. Open it from the mail itself, or copy all of it."])
        case .failed(.later): ActionWords(title: "That did not work", lines: ["The fault is ours. Try again in a minute."])
        }
    }

    private var greek: ActionWords {
        switch self {
        case .confirm(.verifyAndChangeEmail, _, let newEmail):
            ActionWords(
                title: "Χρήση αυτής της διεύθυνσης;",
                lines: ["Η \(newEmail ?? "") γίνεται η διεύθυνση του λογαριασμού σας. Έπειτα θα συνδεθείτε ξανά."],
                button: "Χρήση αυτής της διεύθυνσης")
        case .confirm(.recoverEmail, let email, _):
            ActionWords(
                title: "Επαναφορά διεύθυνσης;",
                lines: [
                    "Η \(email) γίνεται ξανά η διεύθυνση του λογαριασμού σας και αποσυνδέονται όλες οι συσκευές. Θα λάβετε με e-mail "
                        + "σύνδεσμο για νέο κωδικό.",
                ],
                button: "Επαναφορά διεύθυνσης")
        case .confirm(_, let email, _):
            ActionWords(
                title: "Επιβεβαίωση διεύθυνσης",
                lines: [
                    "Είναι η \(email) δική σας διεύθυνση;",
                    "Αν δεν δημιουργήσατε εσείς αυτόν τον λογαριασμό, μην επιβεβαιώσετε: θα έμενε σε όποιον τον δημιούργησε, με τη δική "
                        + "σας διεύθυνση.",
                ],
                button: "Ναι, είναι δική μου")
        case .password:
            ActionWords(
                title: "Ορισμός νέου κωδικού",
                lines: ["Όλες οι συσκευές αποσυνδέονται και συνδέεστε με τον νέο κωδικό."],
                button: "Αποθήκευση κωδικού")
        case .signIn:
            ActionWords(
                title: "Σύνδεση",
                lines: ["Συνεχίστε στην εφαρμογή, στη συσκευή από την οποία ζητήσατε αυτόν τον σύνδεσμο."])
        case .done(.resetPassword, _): ActionWords(title: "Ο νέος κωδικός ορίστηκε", lines: ["Μπορείτε πλέον να συνδεθείτε με αυτόν."])
        case .done(.verifyAndChangeEmail, let email):
            ActionWords(
                title: "Η διεύθυνσή σας άλλαξε",
                lines: ["Από τώρα συνδέεστε ως \(email)."])
        case .done(.recoverEmail, let email):
            ActionWords(
                title: "Η διεύθυνσή σας επανήλθε",
                lines: ["Ο λογαριασμός σας είναι ξανά ο \(email). Ορίστε τώρα νέο κωδικό: ο σύνδεσμος βρίσκεται στα μηνύματά σας."])
        case .done(_, let email): ActionWords(title: "Ευχαριστούμε", lines: ["Η \(email) επιβεβαιώθηκε."])
        case .failed(.used):
            ActionWords(
                title: "Ο σύνδεσμος δεν ισχύει πια",
                lines: [
                    "Έχει ήδη χρησιμοποιηθεί ή σας στάλθηκε νεότερος. Ανοίξτε το τελευταίο μήνυμα ή ζητήστε νέο σύνδεσμο από την εφαρμογή.",
                ])
        case .failed(.expired): ActionWords(title: "Ο σύνδεσμος έληξε", lines: ["Ζητήστε νέο από την εφαρμογή."])
        case .failed(.emailTaken):
            ActionWords(
                title: "Η διεύθυνση χρησιμοποιείται ήδη",
                lines: ["Ανήκει πλέον σε άλλον λογαριασμό. Δεν άλλαξε τίποτα."])
        case .failed(.disabled):
            ActionWords(
                title: "Ο λογαριασμός είναι ανενεργός",
                lines: ["Δεν άλλαξε τίποτα. Απευθυνθείτε στον διαχειριστή της υπηρεσίας."])
        case .failed(.tooMany):
            ActionWords(
                title: "Μια στιγμή",
                lines: ["Ανοίχτηκαν πολλοί σύνδεσμοι από το δίκτυό σας. Δοκιμάστε ξανά σε ένα λεπτό."])
        case .failed(.incomplete):
            ActionWords(
                title: "Ο σύνδεσμος δεν είναι πλήρης",
                lines: [
                    "Κάποιες φορές τα προγράμματα e-mail κόβουν τους μεγάλους συνδέσμους. Ανοίξτε τον από το ίδιο το μήνυμα ή αντιγράψτε "
                        + "τον ολόκληρο.",
                ])
        case .failed(.later): ActionWords(title: "Κάτι δεν πήγε καλά", lines: ["Το σφάλμα είναι δικό μας. Δοκιμάστε ξανά σε ένα λεπτό."])
        }
    }
}
