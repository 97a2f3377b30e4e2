"""Becomes a program in a tree, as a container engine starts one: nothing of the tree is needed for it, not even a shell.

    enter.py '{"root":…, "uid":…, "gid":…, "folder":…, "environment":{…}, "words":[…], "confined":false}'

`confined`: no capabilities, and none to be gained.
"""

import ctypes
import json
import os
import sys
import warnings  # noqa: F401  os.execvpe imports it, and the tree of the image has no Python

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38


def prctl(option, value):
    return ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def main(root, uid, gid, folder, environment, words, confined):
    if confined:
        capability = 0
        while prctl(PR_CAPBSET_DROP, capability) == 0:       # fails at the first number that the kernel does not know
            capability += 1
        if prctl(PR_SET_NO_NEW_PRIVS, 1):
            sys.exit("enter.py: no_new_privs was refused")
    os.chroot(root)
    os.chdir(folder)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    try:
        os.execvpe(words[0], words, environment)
    except OSError as error:
        sys.exit(f"enter.py: {words[0]}: {error.strerror}")


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
