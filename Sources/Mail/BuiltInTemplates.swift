/// The built-in mail texts, for hubs without their own templates; also examples for such templates.
enum BuiltInTemplates {
    static func source(_ kind: MessageKind, _ language: Language) -> String {
        switch language {
        case .english: english(kind)
        case .greek: greek(kind)
        }
    }

    /// One column: the text, a button for the link, and the link itself below it. Loads no external resource.
    static func html(_ template: MessageTemplate, _ language: Language, hasLink: Bool) -> String {
        let button = "display:inline-block;padding:12px 22px;border-radius:6px;background:#0f6286;color:#ffffff;"
            + "text-decoration:none;font-weight:600"
        var body = ""
        for paragraph in template.text.split(separator: "\n\n").map(String.init) {
            if hasLink, paragraph == "{{link}}" {
                let label = HTMLText.escape(template.button ?? "{{app}}")
                body += """
                    <p style="margin:28px 0 12px"><a href="{{link}}" style="\(button)">\(label)</a></p>
                    <p style="margin:0 0 28px;font-size:12px;line-height:18px;color:#666b72;word-break:break-all">{{link}}</p>

                    """
            } else {
                let lines = HTMLText.escape(paragraph).split(separator: "\n", omittingEmptySubsequences: false).joined(separator: "<br>\n")
                body += "<p style=\"margin:0 0 16px\">\(lines)</p>\n"
            }
        }
        return """
            <!doctype html>
            <html lang="\(language.rawValue)">
            <head><meta charset="utf-8"><meta name="viewport" content="width=device-width">\
            <meta name="color-scheme" content="light dark"></head>
            <body style="margin:0;padding:32px 16px;font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;\
            font-size:16px;line-height:24px">
            <div style="max-width:520px;margin:0 auto">
            <p style="margin:0 0 24px;font-size:18px;font-weight:600">{{app}}</p>
            \(body)</div>
            </body>
            </html>

            """
    }

    private static func english(_ kind: MessageKind) -> String {
        switch kind {
        case .verifyEmail: """
            Subject: Confirm your e-mail address for {{app}} ({{time}})
            Button: Confirm address

            Hello,

            please confirm that {{email}} is your address.

            {{link}}

            The link works once, for {{life}}. If you made no account, do not confirm: ignore this mail, and nothing will change.
            """
        case .resetPassword: """
            Subject: Choose a new password for {{app}} ({{time}})
            Button: Choose a new password

            Hello,

            somebody, probably you, asked for a new password for {{email}}.

            {{link}}

            The link works once, for {{life}}. If it was not you, ignore this mail: your password stays as it is.
            """
        case .signIn: """
            Subject: Sign in to {{app}} ({{time}})
            Button: Sign in

            Hello,

            this link signs you in to {{app}} as {{email}}. Open it on the device on which you asked for it.

            {{link}}

            It works once, for {{life}}. Do not pass it on. If you did not ask for it, ignore this mail.
            """
        case .verifyAndChangeEmail: """
            Subject: Confirm your new e-mail address for {{app}} ({{time}})
            Button: Use this address

            Hello,

            please confirm that {{newEmail}} is to be the new address of your account.

            {{link}}

            The link works once, for {{life}}. If you did not ask for it, ignore this mail: nothing will change.
            """
        case .recoverEmail: """
            Subject: Your e-mail address for {{app}} was changed ({{time}})
            Button: Change it back

            Hello,

            the address of your account was changed from {{email}} to {{newEmail}}.

            If that was you, there is nothing to do. If it was not, change it back:

            {{link}}

            The link works once, for {{life}}. Choose a new password afterwards.
            """
        case .passwordChanged: """
            Subject: Your password for {{app}} was changed ({{time}})

            Hello,

            the password of your account {{email}} was changed.

            If that was you, there is nothing to do. If it was not, have a link for a new password sent to you where you sign in, at once.
            """
        }
    }

    private static func greek(_ kind: MessageKind) -> String {
        switch kind {
        case .verifyEmail: """
            Subject: Επιβεβαιώστε τη διεύθυνσή σας για το {{app}} ({{time}})
            Button: Επιβεβαίωση διεύθυνσης

            Γεια σας,

            επιβεβαιώστε ότι η διεύθυνση {{email}} είναι δική σας.

            {{link}}

            Ο σύνδεσμος ισχύει για μία χρήση και για {{life}}. Αν δεν δημιουργήσατε λογαριασμό, μην επιβεβαιώσετε: \
            αγνοήστε αυτό το μήνυμα και δεν θα αλλάξει τίποτα.
            """
        case .resetPassword: """
            Subject: Νέος κωδικός για το {{app}} ({{time}})
            Button: Ορισμός νέου κωδικού

            Γεια σας,

            κάποιος, πιθανότατα εσείς, ζήτησε νέο κωδικό για τον λογαριασμό {{email}}.

            {{link}}

            Ο σύνδεσμος ισχύει για μία χρήση και για {{life}}. Αν δεν τον ζητήσατε εσείς, αγνοήστε αυτό το μήνυμα: \
            ο κωδικός σας μένει όπως είναι.
            """
        case .signIn: """
            Subject: Σύνδεση στο {{app}} ({{time}})
            Button: Σύνδεση

            Γεια σας,

            με αυτόν τον σύνδεσμο συνδέεστε στο {{app}} ως {{email}}. Ανοίξτε τον στη συσκευή από την οποία τον ζητήσατε.

            {{link}}

            Ισχύει για μία χρήση και για {{life}}. Μην τον δώσετε σε άλλους. Αν δεν τον ζητήσατε εσείς, αγνοήστε αυτό το μήνυμα.
            """
        case .verifyAndChangeEmail: """
            Subject: Επιβεβαιώστε τη νέα σας διεύθυνση για το {{app}} ({{time}})
            Button: Χρήση αυτής της διεύθυνσης

            Γεια σας,

            επιβεβαιώστε ότι η {{newEmail}} θα είναι η νέα διεύθυνση του λογαριασμού σας.

            {{link}}

            Ο σύνδεσμος ισχύει για μία χρήση και για {{life}}. Αν δεν τον ζητήσατε εσείς, αγνοήστε αυτό το μήνυμα: δεν θα αλλάξει τίποτα.
            """
        case .recoverEmail: """
            Subject: Η διεύθυνσή σας για το {{app}} άλλαξε ({{time}})
            Button: Επαναφορά διεύθυνσης

            Γεια σας,

            η διεύθυνση του λογαριασμού σας άλλαξε από {{email}} σε {{newEmail}}.

            Αν το κάνατε εσείς, δεν χρειάζεται καμία ενέργεια. Αν όχι, επαναφέρετέ την:

            {{link}}

            Ο σύνδεσμος ισχύει για μία χρήση και για {{life}}. Έπειτα ορίστε νέο κωδικό.
            """
        case .passwordChanged: """
            Subject: Ο κωδικός σας για το {{app}} άλλαξε ({{time}})

            Γεια σας,

            ο κωδικός του λογαριασμού σας {{email}} άλλαξε.

            Αν το κάνατε εσείς, δεν χρειάζεται καμία ενέργεια. Αν όχι, ζητήστε αμέσως σύνδεσμο για νέο κωδικό από τη σελίδα σύνδεσης.
            """
        }
    }
}

/// Escapes a text for use in HTML text or a quoted attribute.
package enum HTMLText {
    package static func escape(_ text: String) -> String {
        var out = ""
        out.reserveCapacity(text.utf8.count)
        for character in text.unicodeScalars {
            switch character {
            case "&": out += "&amp;"
            case "<": out += "&lt;"
            case ">": out += "&gt;"
            case "\"": out += "&quot;"
            case "'": out += "&#39;"
            default: out.unicodeScalars.append(character)
            }
        }
        return out
    }
}
