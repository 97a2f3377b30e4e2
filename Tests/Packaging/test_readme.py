"""Tests of the reader of README's blocks."""

import unittest

from readme import blocks, unmarked


class ReadmeReading(unittest.TestCase):
    def test_block_hasWhatIsSaidInTheLineBefore(self):
        found = blocks("<!-- tested: package -->\n```sh\na\nb\n```\n\ntext\n\n```js\nc\n```\n")
        self.assertEqual([(block.test, block.language, block.text) for block in found], [("package", "sh", "a\nb\n"), (None, "js", "c\n")])

    def test_note_isForgottenBehindOtherText(self):
        self.assertEqual(blocks("<!-- tested: package -->\ntext\n```\na\n```\n")[0].test, None)

    def test_unmarked_areThoseWithoutTestOrReason(self):
        text = "<!-- not tested: a phone -->\n```\na\n```\n<!-- not tested:  -->\n```\nb\n```\n```\nc\n```\n"
        self.assertEqual([block.line for block in unmarked(text)], [6, 9])


if __name__ == "__main__":
    unittest.main()
