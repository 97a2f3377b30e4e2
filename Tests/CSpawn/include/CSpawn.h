#pragma once
#include <spawn.h>

/// In the child: changes to a folder, and closes all descriptors from 3 on. Returns an error number.
int spawn_actions_add_isolation(posix_spawn_file_actions_t *actions, const char *folder);
