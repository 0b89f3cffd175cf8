/*
 * pack_remote.c - see pack_remote.h.
 *
 * The library opens a file at a URL with the client of the calling thread (<iter/remote/client.h>).
 * One for the whole program keeps connections and keys, and knows what was taken out of the URLs.
 */
#include "tools/iterpack/pack_remote.h"

#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/remote/url.h"
#include "tools/iterpack/iterpack.h"

static iter__remote *client;
static char **names; /* [n_names], made from arguments; iter__free */
static size_t n_names;

/* If the client cannot be made, `client` stays NULL. */
static void make_client(bool anonymous) {
    const iter_ops *table = iter__remote_table();
    if (table == NULL) return; /* this build reads no URLs */
    iter__remote_options options;
    memcpy(&options, table->defaults, sizeof(options));
    options.anonymous = anonymous;
    (void)iter__remote_create(&options, &client, NULL);
}

void pack_remote_open(int n_args, char **args) {
    bool anonymous = false;
    for (int i = 1; i < n_args; i++)
        if (strcmp(args[i], "--" PACK_ANONYMOUS) == 0) anonymous = true;
    make_client(anonymous);
    (void)iter__remote_enter(&client);
    for (int i = 1; i < n_args; i++) {
        if (!client || !iter__url_is(args[i])) continue;
        char *name = iter__remote_hide(client, args[i]);
        if (!name) continue;
        names = pack_memory(names, n_names + 1, sizeof(*names));
        names[n_names++] = args[i] = name;
    }
}

void pack_remote_close(void) {
    for (size_t i = 0; i < n_names; i++)
        iter__free(names[i]);
    free(names);
    names = NULL;
    n_names = 0;
    (void)iter__remote_enter(NULL);
    iter__remote_unref(client);
    client = NULL;
}

void pack_remote_enter(iter__remote **place) {
    *place = iter__remote_ref(client);
    (void)iter__remote_enter(place);
}

size_t pack_path_bytes(const char *path) {
    const bool query = iter__url_is(path) && !iter__url_is_s3(path);
    return query ? strcspn(path, "?") : strlen(path);
}
