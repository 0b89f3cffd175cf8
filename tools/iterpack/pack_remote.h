/* pack_remote.h - URLs on the command line: one client for all, and names without secrets. */
#ifndef PACK_REMOTE_H
#define PACK_REMOTE_H

#include <stddef.h>

#include "iter/remote/client.h"
#include "iter/remote/upload.h"

/* The flag by which the client signs nothing. pack_remote_open() looks for it in the whole command
 * line, since the client must exist before the options are read; so every command has this row. */
#define PACK_ANONYMOUS "anonymous"
#define PACK_ANONYMOUS_ROW(room) \
    { PACK_ANONYMOUS, PACK_FLAG, room, 0, 0 }

/* Makes the client from the environment, for the calling thread, and replaces URLs among the
 * arguments by names without passwords and tokens, which only that client knows. If it cannot be
 * made, the first URL that is opened reports why. */
void pack_remote_open(int n_args, char **args);
/* Frees the client, and those names. */
void pack_remote_close(void);

/* Lets another thread open URLs with the client, which is in *place then: iter__remote_unref() when
 * the thread ends. */
void pack_remote_enter(iter__remote **place);

/* The path's length without the query of a URL. */
size_t pack_path_bytes(const char *path);

#endif
