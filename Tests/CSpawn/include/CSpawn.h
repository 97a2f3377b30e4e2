#pragma once
#include <spawn.h>

/// Makes the child change to a folder, and close all descriptors from 3 on. Returns an error number.
int spawn_actions_add_isolation(posix_spawn_file_actions_t *actions, const char *folder);
