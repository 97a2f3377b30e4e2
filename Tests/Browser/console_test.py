"""The console page in headless Chromium against a real hub. Run through Tests/Browser/run.

Each step is a function of a file steps_*.py; they share one browser and run in order. The page's state is read through `window.vigla`,
which the head of web/app.js documents; what a person does is done with clicks and keys. Words after the program's name choose steps.
"""

import sys
import time
import traceback

import steps_access
import steps_data
import steps_first
import steps_health
import steps_outbox
import steps_pages
import steps_rules
import steps_shell
import steps_tabs
import steps_users
from client import Client
from page import Page, serve

STEPS = [*steps_shell.STEPS, *steps_first.STEPS, *steps_data.STEPS, *steps_tabs.STEPS, *steps_rules.STEPS, *steps_users.STEPS, *steps_outbox.STEPS, *steps_health.STEPS, *steps_access.STEPS, *steps_pages.STEPS,
         *steps_shell.LAST_STEPS]


def main():
    only = sys.argv[1:]
    hub = serve("--dev")
    page = None
    try:
        page = Page()
        with Client(hub) as client:
            for step in STEPS:
                name = step.__name__
                if only and not any(part in name for part in only):
                    continue
                started = time.monotonic()
                step(page, hub, client)
                print(f"ok {name} ({time.monotonic() - started:.1f} s)", flush=True)
        print("browser test: all steps passed")
        return 0
    except Exception:
        traceback.print_exc()
        print(f"FAILED {name if page else 'at start'}", flush=True)
        if page:
            page.picture("failed")
            for message in page.drain():
                print("console:", message["level"], message["message"])
        return 1
    finally:
        if page:
            page.driver.quit()
        hub.stop()


if __name__ == "__main__":
    sys.exit(main())
