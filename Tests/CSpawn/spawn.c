#define _GNU_SOURCE
#include "CSpawn.h"

int spawn_actions_add_isolation(posix_spawn_file_actions_t *actions, const char *folder) {
    int error = folder ? posix_spawn_file_actions_addchdir_np(actions, folder) : 0;
    return error ? error : posix_spawn_file_actions_addclosefrom_np(actions, 3);
}
